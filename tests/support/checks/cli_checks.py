"""Checks of the commands with any broker: the same tests for Ruslo and for Apache Kafka."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from click.testing import CliRunner, Result
from kafka.partitioner import murmur2

from ruslo.cli.main import cli

RUSLO = [sys.executable, "-m", "ruslo.cli"]
_topic_numbers = itertools.count()


class Cli:
    """Runs commands against one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *arguments: str, stdin: str | bytes = b"") -> Result:
        """Run in this process."""
        environment = {"RUSLO_BOOTSTRAP": self.bootstrap}
        return CliRunner().invoke(cli, list(arguments), input=stdin, env=environment, catch_exceptions=False)

    def ok(self, *arguments: str, stdin: str | bytes = b"") -> str:
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str, stdin: str | bytes = b"") -> Any:
        return json.loads(self.ok(*arguments, "-o", "json", stdin=stdin))

    def lines(self, *arguments: str) -> list[Any]:
        """The objects of a command that prints JSON lines."""
        return [json.loads(line) for line in self.ok(*arguments, "-o", "json").splitlines()]

    def fails(self, *arguments: str, stdin: str | bytes = b"") -> str:
        """Run a command that must exit with 1; return its stderr."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 1, result.output
        return result.stderr

    def process(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        environment = os.environ | {"RUSLO_BOOTSTRAP": self.bootstrap}
        return subprocess.Popen([*RUSLO, *arguments], env=environment, **options)

    def new_topic(self, *options: str) -> str:
        name = f"cli-{next(_topic_numbers)}"
        self.ok("topic", "create", name, *options)
        return name

    def wait_for_setting(self, of: tuple[str, str], name: str, value: str | None, source: str) -> None:
        """Wait for a config: brokers apply a change a moment after the controller has stored it."""
        deadline = time.monotonic() + 60
        while True:
            (entry,) = self.json("config", "describe", *of, name)
            if (entry["value"], entry["source"]) == (value, source):
                return
            assert time.monotonic() < deadline, entry
            time.sleep(0.05)


class CliChecks:
    """A subclass provides the fixture ``bootstrap``."""

    @pytest.fixture
    def cli(self, bootstrap: str) -> Cli:
        return Cli(bootstrap)

    # -- topics

    def test_a_created_topic_is_listed_and_described(self, cli: Cli) -> None:
        created = cli.json("topic", "create", "shape", "-p", "3", "-c", "retention.ms=777000")
        assert created[0] | {"topic_id": None} == {
            "name": "shape",
            "status": "created",
            "topic_id": None,
            "partitions": 3,
            "replication_factor": 1,
            "error": None,
        }
        listed = {topic["name"]: topic for topic in cli.json("topic", "list")}
        assert listed["shape"]["partitions"] == 3
        assert listed["shape"]["topic_id"] == created[0]["topic_id"]
        (described,) = cli.json("topic", "describe", "shape")
        assert described["configs"] == {"retention.ms": {"value": "777000", "source": "topic"}}
        assert [p["next_offset"] for p in described["partitions"]] == [0, 0, 0]
        assert [p["leader"] for p in described["partitions"]] == [1, 1, 1]

    def test_text_of_describe_is_aligned(self, cli: Cli) -> None:
        topic = cli.new_topic("-p", "2")
        text = cli.ok("topic", "describe", topic)
        table = text[text.index("PARTITION") :].splitlines()
        assert table[0].split() == [
            "PARTITION",
            "LEADER",
            "EPOCH",
            "REPLICAS",
            "ISR",
            "FIRST",
            "NEXT",
            "SIZE",
        ]
        assert [line.split()[0] for line in table[1:]] == ["0", "1"]
        assert len({len(line) for line in table}) == 1

    def test_creating_twice_fails_without_if_not_exists(self, cli: Cli) -> None:
        topic = cli.new_topic()
        assert "--if-not-exists" in cli.fails("topic", "create", topic)
        assert cli.ok("topic", "create", topic, "--if-not-exists") == f"exists {topic}\n"

    def test_create_reports_each_topic(self, cli: Cli) -> None:
        topic = cli.new_topic()
        result = cli.run("topic", "create", "fresh-one", topic)
        assert result.exit_code == 1
        assert result.stdout.startswith("created fresh-one")
        assert "TOPIC_ALREADY_EXISTS" in result.stderr

    def test_validate_only_creates_nothing(self, cli: Cli) -> None:
        assert cli.ok("topic", "create", "never", "--validate-only").startswith("valid never")
        assert "does not exist" in cli.fails("topic", "describe", "never")

    def test_invalid_topics_are_rejected(self, cli: Cli) -> None:
        assert "INVALID_CONFIG" in cli.fails("topic", "create", "bad", "-c", "retention.ms=soon")
        assert "INVALID_REPLICATION_FACTOR" in cli.fails("topic", "create", "bad", "-r", "3")
        assert "INVALID_TOPIC_EXCEPTION" in cli.fails("topic", "create", "b*d")

    def test_delete(self, cli: Cli) -> None:
        topic = cli.new_topic()
        assert cli.run("topic", "delete", topic).exit_code == 2
        assert cli.ok("topic", "delete", topic, "--yes") == f"deleted {topic}\n"
        assert "UNKNOWN_TOPIC_OR_PARTITION" in cli.fails("topic", "delete", topic, "--yes")
        assert cli.ok("topic", "delete", topic, "--yes", "--if-exists") == f"absent {topic}\n"

    def test_add_partitions(self, cli: Cli) -> None:
        topic = cli.new_topic("-p", "2")
        assert cli.ok("topic", "add-partitions", topic, "--total", "5") == f"{topic} has 5 partitions\n"
        assert "INVALID_PARTITIONS" in cli.fails("topic", "add-partitions", topic, "--total", "3")
        assert "UNKNOWN_TOPIC_OR_PARTITION" in cli.fails(
            "topic", "add-partitions", "none-such", "--total", "3"
        )

    def test_delete_records(self, cli: Cli) -> None:
        topic = cli.new_topic()
        cli.ok("produce", topic, stdin="".join(f"{n}\n" for n in range(10)))
        (start,) = cli.json("topic", "delete-records", topic, "--before", "4", "--yes")
        assert start == {"topic": topic, "partition": 0, "first_offset": 4}
        assert cli.ok("consume", topic, "--exit").split() == ["4", "5", "6", "7", "8", "9"]
        cli.ok("topic", "delete-records", topic, "--before", "-1", "--yes")
        assert cli.ok("consume", topic, "--exit") == "9\n"
        cli.ok("topic", "delete-records", topic, "--before", "end", "--yes")
        assert cli.ok("consume", topic, "--exit") == ""
        assert "OFFSET_OUT_OF_RANGE" in cli.fails("topic", "delete-records", topic, "--before", "99", "-y")

    # -- configs

    def test_broker_loggers(self, cli: Cli) -> None:
        of = ("--broker-logger", "1")
        levels = {each["name"]: each["value"] for each in cli.json("config", "describe", *of)}
        assert len(levels) > 1
        cli.ok("config", "set", *of, f"root={levels['root']}", "--validate-only")
        cli.ok("config", "set", *of, f"root={levels['root']}")
        (root,) = cli.json("config", "describe", *of, "root")
        assert (root["value"], root["source"]) == (levels["root"], "dynamic_broker_logger")
        assert "INVALID_CONFIG" in cli.fails("config", "set", *of, "no.such.logger=INFO")
        assert "INVALID_CONFIG" in cli.fails("config", "set", *of, "root=LOUD")
        assert "INVALID_REQUEST" in cli.fails("config", "unset", *of, "root")

    def test_topic_configs(self, cli: Cli) -> None:
        topic = cli.new_topic()
        assert cli.ok("config", "set", "--topic", topic, "retention.ms=5000") == (
            f"changed topic {topic}: retention.ms = 5000\n"
        )
        of = ("--topic", topic)
        cli.wait_for_setting(of, "retention.ms", "5000", "topic")
        cli.ok("topic", "alter", topic, "--unset", "retention.ms", "--set", "cleanup.policy=compact")
        cli.wait_for_setting(of, "cleanup.policy", "compact", "topic")
        entries = {e["name"]: e for e in cli.json("config", "describe", "--topic", topic)}
        assert entries["retention.ms"]["source"] == "default"
        assert entries["cleanup.policy"]["value"] == "compact"
        assert len(entries) > 25
        assert "INVALID_CONFIG" in cli.fails("config", "set", "--topic", topic, "no.such.key=1")
        assert "UNKNOWN_TOPIC_OR_PARTITION" in cli.fails("config", "set", "--topic", "none", "retention.ms=1")
        assert "Unknown config 'nope'" in cli.fails("config", "describe", "--topic", topic, "nope")

    def test_broker_configs(self, cli: Cli) -> None:
        of = ("--broker", "1")
        cli.ok("config", "set", "--all-brokers", "log.retention.ms=123456789")
        cli.wait_for_setting(of, "log.retention.ms", "123456789", "dynamic_default_broker")
        cli.ok("config", "set", "--broker", "1", "log.retention.ms=99")
        cli.wait_for_setting(of, "log.retention.ms", "99", "dynamic_broker")
        cli.ok("config", "unset", "--broker", "1", "log.retention.ms")
        cli.ok("config", "unset", "--all-brokers", "log.retention.ms")
        (node_id,) = cli.json("config", "describe", "--broker", "1", "--set-only", "node.id")
        assert (node_id["value"], node_id["source"]) == ("1", "static_broker")
        cli.wait_for_setting(of, "log.retention.ms", None, "default")
        assert "broker 77 does not exist" in cli.fails("config", "describe", "--broker", "77")

    def test_documentation_of_a_config(self, cli: Cli) -> None:
        topic = cli.new_topic()
        text = cli.ok("config", "describe", "--topic", topic, "segment.bytes", "--doc")
        assert text.startswith("segment.bytes = 1073741824  (default)\n")
        assert len(text.splitlines()) > 1

    # -- the cluster

    def test_cluster_info(self, cli: Cli) -> None:
        topic = cli.new_topic("-p", "2")
        info = cli.json("cluster", "info")
        assert [broker["id"] for broker in info["brokers"]] == [1]
        assert info["brokers"][0]["leaders"] >= 2
        assert info["partitions_without_leader"] == 0
        assert info["quorum"]["leader_id"] == 1
        assert [voter["id"] for voter in info["quorum"]["voters"]] == [1]
        assert info["features"]["metadata.version"]["finalized"] > 0
        assert info["log_directories"][0]["error"] is None
        text = cli.ok("cluster", "info")
        assert info["cluster_id"] in text
        assert cli.bootstrap in text
        assert topic not in text

    def test_brokers_quorum_and_risks(self, cli: Cli) -> None:
        topic = cli.new_topic("-p", "2")
        (broker,) = cli.json("cluster", "brokers")
        assert (broker["id"], broker["fenced"], broker["out_of_sync"]) == (1, False, 0)
        assert cli.json("cluster", "broker", "status", "1") == broker | {"used_bytes": ANY}
        (voter,) = cli.json("cluster", "voter", "list")
        assert (voter["id"], voter["role"], voter["lag"]) == (1, "leader", 0)
        assert cli.json("cluster", "quorum")["leader_id"] == 1
        assert cli.json("cluster", "topics-at-risk", "--topic", topic)["partitions"] == []
        assert "does not exist" in cli.fails("cluster", "topics-at-risk", "--topic", "none-such")
        assert "is alive" in cli.fails("cluster", "broker", "unregister", "1", "--yes")
        assert "BROKER_ID_NOT_REGISTERED" in cli.fails("cluster", "broker", "unregister", "9", "--yes")

    def test_elections_and_moves_of_a_single_broker(self, cli: Cli) -> None:
        topic = cli.new_topic("-p", "2")
        results = cli.json("cluster", "elect", "preferred", "--topic", topic)
        assert [each["status"] for each in results] == ["not-needed", "not-needed"]
        assert cli.json("cluster", "elect", "preferred", "--all") == []
        plan = json.dumps({"partitions": [{"topic": topic, "partition": 1, "replicas": [1]}]})
        (moved,) = cli.json("cluster", "reassign", "execute", "-", "--wait", stdin=plan)["partitions"]
        assert moved["state"] == "done"
        assert cli.json("cluster", "reassign", "status") == {"partitions": [], "refused": []}
        assert cli.ok("cluster", "reassign", "cancel", "--all") == "No reassignment is in progress.\n"
        refused = cli.run("cluster", "reassign", "execute", "-", stdin=plan.replace("[1]", "[1, 7]"))
        assert refused.exit_code == 1
        assert "INVALID_REPLICA_ASSIGNMENT" in refused.stderr
        assert "brokers are available for only 1" in cli.fails(
            "cluster", "reassign", "plan", "--topic", topic, "-r", "2"
        )

    # -- produce and consume

    def test_lines_round_trip(self, cli: Cli) -> None:
        topic = cli.new_topic()
        output = cli.ok("produce", topic, stdin="one\ntwo\n\nfour")
        assert output == f"4 acknowledged in {topic}: partition 0 offsets 0..3\n"
        assert cli.ok("consume", topic, "--exit") == "one\ntwo\n\nfour\n"

    def test_keys_headers_nulls_and_partitions(self, cli: Cli) -> None:
        topic = cli.new_topic("-p", "3")
        cli.ok(
            "produce",
            topic,
            "-K",
            ":",
            "-Z",
            "NULL",
            "-H",
            "from=test",
            "-p",
            "2",
            stdin="a:1\nb:NULL\nplain\n",
        )
        assert cli.ok("consume", topic, "-e", "-Z", "~", "-f", r"%t/%p/%o %k=%s %K,%S %h\n") == (
            f"{topic}/2/0 a=1 1,1 from=test\n"
            f"{topic}/2/1 b=~ 1,-1 from=test\n"
            f"{topic}/2/2 ~=plain -1,5 from=test\n"
        )

    def test_keys_map_to_the_same_partitions_as_in_other_clients(self, cli: Cli) -> None:
        topic = cli.new_topic("-p", "7")
        keys = [f"key-{n}" for n in range(20)]
        cli.ok("produce", topic, "-K", ":", stdin="".join(f"{key}:1\n{key}:2\n" for key in keys))
        placed = {(r["key"], r["partition"]) for r in cli.lines("consume", topic, "-e")}
        assert placed == {(key, (murmur2(key.encode()) & 0x7FFFFFFF) % 7) for key in keys}

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_compression(self, cli: Cli, codec: str) -> None:
        topic = cli.new_topic()
        text = "".join(f"line {n} of many that look alike\n" for n in range(500))
        cli.ok("produce", topic, "-z", codec, stdin=text)
        assert cli.ok("consume", topic, "-e") == text

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_acks(self, cli: Cli, acks: str) -> None:
        topic = cli.new_topic()
        # With acks=0 errors are not reported: make sure first that the leader knows that it leads.
        cli.ok("produce", topic, stdin="first\n")
        report = cli.json("produce", topic, "--acks", acks, stdin="x\ny\n")
        assert (report["acked"], report["failed"]) == (2, 0)
        assert cli.ok("consume", topic, "-n", "3") == "first\nx\ny\n"

    def test_json_round_trip_is_exact(self, cli: Cli) -> None:
        source, copy = cli.new_topic("-p", "2"), cli.new_topic("-p", "2")
        cli.ok(
            "produce",
            source,
            "--json",
            stdin=(
                b'{"key":"k","value":"v","headers":{"a":"1"},"partition":0,"timestamp":1700000000000}\n'
                b'{"key":null,"value":{"n":1},"partition":1}\n'
                b'{"key_base64":"/w==","value_base64":"AP8=","partition":0}\n'
                b'{"key":"gone","value":null,"headers":[{"name":"h","value":null}],"partition":0}\n'
            ),
        )
        dumped = cli.ok("consume", source, "-e", "-o", "json")
        cli.ok("produce", copy, "--json", stdin=dumped)
        first, second = (
            [{k: v for k, v in r.items() if k != "topic"} for r in cli.lines("consume", topic, "-e")]
            for topic in (source, copy)
        )
        assert sorted(first, key=str) == sorted(second, key=str)
        by_offset = {(r["partition"], r["offset"]): r for r in first}
        assert by_offset[0, 0]["timestamp"] == 1700000000000
        assert by_offset[0, 1]["value_base64"] == "AP8="
        assert by_offset[0, 2]["value"] is None
        assert by_offset[1, 0]["value"] == '{"n":1}'

    def test_an_invalid_json_line_is_reported(self, cli: Cli) -> None:
        topic = cli.new_topic()
        output = cli.fails("produce", topic, "--json", stdin='{"value":"good"}\n{"valu":"bad"}\n')
        assert "line 2: unknown field 'valu'" in output
        assert cli.ok("consume", topic, "-e") == "good\n"

    def test_a_file_and_a_whole_file(self, cli: Cli, tmp_path: Path) -> None:
        topic = cli.new_topic()
        picture = bytes(range(256)) * 10
        (tmp_path / "picture").write_bytes(picture)
        (tmp_path / "lines").write_text("1;2;3")
        cli.ok("produce", topic, "-f", str(tmp_path / "lines"), "-D", ";")
        cli.ok("produce", topic, "-f", str(tmp_path / "picture"), "--whole", "-k", "pic")
        assert cli.ok("consume", topic, "-n", "3") == "1\n2\n3\n"
        whole = cli.run("consume", topic, "--from", "3", "-n", "1", "-f", "%s")
        assert whole.stdout_bytes == picture
        assert cli.ok("consume", topic, "--from", "3", "-e", "--encoding", "hex", "-f", "%s") == picture.hex()

    def test_positions(self, cli: Cli) -> None:
        topic = cli.new_topic()
        lines = "".join(f'{{"value":"{n}","timestamp":{1_700_000_000_000 + n * 1000}}}\n' for n in range(10))
        cli.ok("produce", topic, "--json", stdin=lines)

        def read(*options: str) -> list[str]:
            return cli.ok("consume", topic, "-e", *options).split()

        assert read("--from", "7") == ["7", "8", "9"]
        assert read("--from", "-2") == ["8", "9"]
        assert read("--from", "@1700000007000") == ["7", "8", "9"]
        assert read("--from", "2023-11-14T22:13:28Z") == ["8", "9"]
        assert read("--from", "1h") == []
        assert read("--from", "end") == []
        assert read("--until", "2") == ["0", "1"]
        assert read("--from", "3", "--until", "@1700000005000") == ["3", "4"]
        assert read("--from", "2", "-n", "2") == ["2", "3"]
        assert "@1700000000000" in cli.fails("consume", topic, "--from", "1700000000000")

    def test_mistakes_are_explained(self, cli: Cli) -> None:
        assert "topic 'none-such' does not exist" in cli.fails("consume", "none-such", "-e")
        topic = cli.new_topic("-p", "2")
        assert "Use a partition from 0 to 1" in cli.fails("consume", topic, "-p", "5")
        output = cli.fails("produce", topic, "-p", "9", stdin="x\n")
        assert "has no partition 9: it has 2 partitions, 0 to 1" in output
        assert "were sent" not in output

    def test_a_record_that_is_too_large(self, cli: Cli) -> None:
        topic = cli.new_topic("-c", "max.message.bytes=1000")
        output = cli.fails("produce", topic, "--whole", stdin=os.urandom(5000))
        assert "MESSAGE_TOO_LARGE" in output
        assert "Raise max.message.bytes" in output

    def test_follow_until_interrupted(self, cli: Cli) -> None:
        topic = cli.new_topic()
        reader = cli.process("consume", topic, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert reader.stdout is not None
        cli.ok("produce", topic, stdin="first\n")
        assert reader.stdout.readline() == b"first\n"
        cli.ok("produce", topic, stdin="second\n")
        assert reader.stdout.readline() == b"second\n"
        reader.send_signal(signal.SIGINT)
        output, errors = reader.communicate(timeout=60)
        assert (reader.returncode, output, errors) == (130, b"", b"")

    def test_a_closed_pipe_is_not_an_error(self, cli: Cli) -> None:
        topic = cli.new_topic()
        cli.ok("produce", topic, stdin="1\n2\n3\n")
        reader = cli.process("consume", topic, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"1\n"
        reader.stdout.close()
        assert reader.stderr is not None
        assert reader.stderr.read() == b""
        reader.stderr.close()
        assert reader.wait(60) == 0

    def test_records_are_sent_while_the_input_is_open(self, cli: Cli) -> None:
        topic = cli.new_topic()
        writer = cli.process("produce", topic, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert writer.stdin is not None
        writer.stdin.write(b"early\n")
        writer.stdin.flush()
        assert cli.ok("consume", topic, "-n", "1") == "early\n"
        output, _ = writer.communicate(timeout=60)
        assert output.decode() == f"1 acknowledged in {topic}: partition 0 offset 0\n"
        assert writer.returncode == 0

    # -- perf and demo

    @pytest.mark.parametrize("client", ["librdkafka", "native"])
    def test_perf_counts_what_is_stored(self, cli: Cli, client: str) -> None:
        topic = cli.new_topic("-p", "2")
        produced = cli.json("perf", "produce", topic, "-n", "2000", "--size", "100", "--client", client)
        assert produced["records"] >= 2000
        assert produced["failed"] == 0
        assert 0 < produced["ack_ms"]["p50"] <= produced["ack_ms"]["p99"] <= produced["ack_ms"]["max"]
        (described,) = cli.json("topic", "describe", topic)
        assert described["records"] == produced["records"]
        taken = cli.json("perf", "consume", topic, "--client", client)
        assert taken["records"] == produced["records"]

    def test_perf_latency(self, cli: Cli) -> None:
        topic = cli.new_topic()
        measured = cli.json("perf", "latency", topic, "-n", "20")
        assert measured["records"] == 20
        assert measured["ack_ms"]["max"] > 0
        assert measured["end_to_end_ms"]["max"] > 0

    def test_perf_keeps_to_the_rate(self, cli: Cli) -> None:
        topic = cli.new_topic()
        produced = cli.json("perf", "produce", topic, "--seconds", "1", "--rate", "50")
        assert produced["records"] <= 51

    def test_perf_needs_a_topic(self, cli: Cli) -> None:
        assert "does not exist" in cli.fails("perf", "produce", "perf-typo")

    def test_demo(self, cli: Cli) -> None:
        summary = cli.json("demo", "--no-spark", "--seconds", "1.5", "-b", cli.bootstrap)
        assert summary["complete"]
        assert summary["acked"] == summary["read"] == summary["sent"] > 100
        assert all(topic["acked"] > 0 for topic in summary["topics"])

    def test_demo_counts_every_event_after_ctrl_c(self, cli: Cli) -> None:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        demo = cli.process("demo", "--no-spark", "--rate", "3000", "-b", cli.bootstrap, "-o", "json", **pipes)
        assert demo.stderr is not None
        assert b"Ruslo at" in demo.stderr.readline()
        assert b"acked" in demo.stderr.readline()
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=120)
        summary = json.loads(output)
        assert demo.returncode == 0
        assert summary["acked"] == summary["read"] > 0
