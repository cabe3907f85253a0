"""Checks of ``ruslo txn`` with any broker: the same tests for Ruslo and for Apache Kafka.

The broker must not verify partitions (``hanging.UNVERIFIED``), so that transactions can hang.
"""

from __future__ import annotations

import itertools
import json
import shlex
import time
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaException, Producer, TopicPartition

from ruslo.cli.txn.find_hanging import EXIT_HANGING
from tests.support.checks.cli_checks import Cli
from tests.support.checks.group_checks import KEPT, until
from tests.support.clients.librdkafka import Sent, new_reader, produce_all, receive
from tests.support.txns.hanging import HOUR_MS, hang
from tests.support.txns.transactional_clients import CALL_S, new_transactional, read_committed

_numbers = itertools.count()


def new_id() -> str:
    return f"txn-{next(_numbers)}"


def begin(cli: Cli, transactional_id: str, topic: str, partitions: int = 1, age_ms: int = 0) -> Producer:
    """A producer with an open transaction, a record in each partition."""
    producer = new_transactional(cli.bootstrap, transactional_id)
    producer.begin_transaction()
    for index in range(partitions):
        producer.produce(topic, b"open", partition=index, timestamp=int(time.time() * 1000) - age_ms)
    assert producer.flush(CALL_S) == 0
    return producer


def until_state(cli: Cli, transactional_id: str, state: str) -> Any:
    """Wait for a state: Apache Kafka responds to EndTxn before the markers are written."""
    (view,) = until(cli, ("txn", "describe", transactional_id), lambda views: views[0]["state"] == state)
    return view


def find_hanging(cli: Cli, *arguments: str) -> list[Any]:
    """The hanging transactions; the exit code must match."""
    result = cli.run("txn", "find-hanging", *arguments, "-o", "json")
    found: list[Any] = json.loads(result.stdout)
    assert result.exit_code == (EXIT_HANGING if found else 0), result.output
    return found


def arguments_of(command: str) -> list[str]:
    program, *arguments = shlex.split(command)
    assert program == "ruslo"
    return arguments


class TxnChecks:
    """A subclass provides the fixture ``bootstrap``."""

    @pytest.fixture
    def cli(self, bootstrap: str) -> Cli:
        return Cli(bootstrap)

    # -- listing and describing

    def test_list_by_every_filter(self, cli: Cli) -> None:
        topic, stem = cli.new_topic(), new_id()
        opened, done, idle = (f"{stem}-{name}" for name in ("open", "done", "idle"))
        new_transactional(cli.bootstrap, idle)
        begin(cli, done, topic).commit_transaction(CALL_S)
        until_state(cli, done, "CompleteCommit")
        begin(cli, opened, topic)

        def listed(*filters: str) -> dict[str, Any]:
            rows = cli.json("txn", "list", "--matching", f"{stem}-.*", *filters)
            return {row["transactional_id"]: row for row in rows}

        rows = listed()
        assert {name: row["state"] for name, row in rows.items()} == {
            opened: "Ongoing",
            done: "CompleteCommit",
            idle: "Empty",
        }
        assert {row["coordinator"] for row in rows.values()} == {1}
        assert len({row["producer_id"] for row in rows.values()}) == 3
        assert set(listed("--state", "ongoing", "--state", "EMPTY")) == {opened, idle}
        assert set(listed("--producer-id", str(rows[done]["producer_id"]))) == {done}
        assert set(listed("--longer-than", "0s")) == {opened}
        assert set(listed("--longer-than", "0s", "--state", "CompleteCommit")) == {done}
        assert listed("--longer-than", "1h") == {}
        assert stem not in cli.ok("txn", "list", "--matching", stem), "the whole id must match"
        header, line = cli.ok("txn", "list", "--matching", opened).splitlines()
        assert header.split() == ["TRANSACTIONAL", "ID", "COORDINATOR", "PRODUCER", "STATE"]
        assert line.split() == [opened, "1", str(rows[opened]["producer_id"]), "Ongoing"]
        cli.ok("txn", "abort", "--transactional-id", opened, "--yes")

    def test_an_invalid_pattern(self, cli: Cli) -> None:
        assert "'(' is not a valid RE2 regular expression" in cli.fails("txn", "list", "--matching", "(")

    def test_describe(self, cli: Cli) -> None:
        topic, name = cli.new_topic("-p", "3"), new_id()
        before_ms = int(time.time() * 1000)
        producer = begin(cli, name, topic, partitions=2)
        (view,) = cli.json("txn", "describe", name)
        assert view["start_time_ms"] >= before_ms - 1000
        assert 0 <= view["age_ms"] < HOUR_MS
        (listed,) = cli.json("txn", "list", "--matching", name)
        changing = dict.fromkeys(("start_time_ms", "age_ms"))
        assert view | changing == {
            "transactional_id": name,
            "coordinator": 1,
            "producer_id": listed["producer_id"],
            "producer_epoch": 0,
            "state": "Ongoing",
            "timeout_ms": 60_000,
            **changing,
            "partitions": {topic: [0, 1]},
        }
        text = cli.ok("txn", "describe", name)
        assert f"Coordinator:       1 ({cli.bootstrap})" in text
        assert f"Partitions:        {topic}:0-1" in text
        assert "ago)" in text
        producer.abort_transaction(CALL_S)
        view = until_state(cli, name, "CompleteAbort")
        assert (view["age_ms"], view["partitions"]) == (None, {})
        new_transactional(cli.bootstrap, name)
        (view,) = cli.json("txn", "describe", name)
        assert (view["state"], view["producer_epoch"], view["start_time_ms"]) == ("Empty", 1, None)

    def test_ids_that_do_not_exist(self, cli: Cli) -> None:
        assert "Run 'ruslo txn list'" in cli.fails("txn", "describe", "missing")
        # An InitProducerId request would have created the ID.
        assert "'missing' does not exist" in cli.fails("txn", "abort", "--transactional-id", "missing", "-y")
        assert cli.json("txn", "list", "--matching", "missing") == []

    def test_producers(self, cli: Cli) -> None:
        topic, name = cli.new_topic("-p", "2"), new_id()
        producer = begin(cli, name, topic)
        (row,) = cli.json("txn", "producers", topic)
        (view,) = cli.json("txn", "describe", name)
        assert abs(row["last_timestamp_ms"] - view["start_time_ms"]) < 60_000
        assert row | {"last_timestamp_ms": None} == {
            "topic": topic,
            "partition": 0,
            "producer_id": view["producer_id"],
            "producer_epoch": 0,
            "last_sequence": 0,
            "last_timestamp_ms": None,
            "coordinator_epoch": None,
            "txn_start_offset": 0,
        }
        producer.commit_transaction(CALL_S)
        until_state(cli, name, "CompleteCommit")
        (row,) = cli.json("txn", "producers", f"{topic}:0")
        assert (row["coordinator_epoch"], row["txn_start_offset"]) == (0, None)
        assert cli.json("txn", "producers", f"{topic}:1") == []
        assert len(cli.ok("txn", "producers", topic).splitlines()) == 2
        assert f"partition {topic}-7 does not exist" in cli.fails("txn", "producers", f"{topic}:7")
        assert "'none-such' does not exist" in cli.fails("txn", "producers", "none-such")

    # -- hanging transactions

    @pytest.mark.parametrize("is_known", [False, True], ids=["no-coordinator-entry", "partition-never-added"])
    def test_a_hanging_transaction_is_found_and_aborted(self, cli: Cli, is_known: bool) -> None:
        topic = cli.new_topic("-p", "2", *KEPT)
        name = new_id() if is_known else None
        produce_all(cli.bootstrap, topic, [Sent(b"before", partition=1)])
        producer_id = hang(cli.bootstrap, topic, 1, transactional_id=name)
        produce_all(cli.bootstrap, topic, [Sent(b"after", partition=1)])
        reader = new_reader(cli.bootstrap, {"isolation.level": "read_committed"})
        reader.assign([TopicPartition(topic, 1, OFFSET_BEGINNING)])
        assert [each.value() for each in receive(reader, 1)] == [b"before"]
        assert reader.consume(1, timeout=1.0) == []

        (found,) = find_hanging(cli, "--topic", topic)
        assert HOUR_MS <= found["idle_ms"] < 2 * HOUR_MS
        assert found | dict.fromkeys(("last_timestamp_ms", "idle_ms")) == {
            "topic": topic,
            "partition": 1,
            "producer_id": producer_id,
            "producer_epoch": 0,
            "last_sequence": 0,
            "last_timestamp_ms": None,
            "coordinator_epoch": None,
            "txn_start_offset": 1,
            "idle_ms": None,
            "transactional_id": name,
            "abort_command": f"ruslo txn abort {topic} 1 --start-offset 1",
        }
        shown = cli.run("txn", "find-hanging", "--topic", topic, "--bootstrap-server", cli.bootstrap)
        assert shown.exit_code == EXIT_HANGING
        assert shown.stdout.splitlines()[-1] == f"{found['abort_command']} --bootstrap-server {cli.bootstrap}"
        assert found in [each | {"idle_ms": found["idle_ms"]} for each in find_hanging(cli)]
        assert find_hanging(cli, "--topic", f"{topic}:0") == []
        assert find_hanging(cli, "--topic", topic, "--max-transaction-timeout", "3h") == []

        aborted = cli.run(*arguments_of(found["abort_command"]), "--yes")
        assert aborted.exit_code == 0, aborted.output
        assert aborted.stdout == f"aborted the transaction of producer {producer_id} in {topic}-1\n"
        assert "starts at offset 1" in aborted.stderr
        assert [each.value() for each in receive(reader, 1)] == [b"after"]
        reader.close()
        assert find_hanging(cli, "--topic", topic) == []

    def test_a_transaction_with_a_live_producer_does_not_hang(self, cli: Cli) -> None:
        topic, name = cli.new_topic("-p", "2", *KEPT), new_id()
        producer = begin(cli, name, topic, partitions=2, age_ms=HOUR_MS)
        assert find_hanging(cli, "--topic", topic, "--broker", "1") == []
        output = cli.fails("txn", "abort", topic, "0", "--start-offset", "0", "--yes")
        assert f"with 'ruslo txn abort --transactional-id {name}'" in output
        producer.commit_transaction(CALL_S)
        until_state(cli, name, "CompleteCommit")
        assert read_committed(cli.bootstrap, topic, 2) == [b"open", b"open"]

    def test_force_aborts_in_one_partition(self, cli: Cli) -> None:
        topic, name = cli.new_topic(), new_id()
        begin(cli, name, topic)
        arguments = ("txn", "abort", topic, "0", "--start-offset", "0", "--force", "--yes")
        response = cli.json(*arguments)
        assert (response["transactional_id"], response["status"]) == (name, "aborted")
        (row,) = cli.json("txn", "producers", topic)
        assert row["txn_start_offset"] is None
        cli.ok("txn", "abort", "--transactional-id", name, "--yes")

    def test_abort_by_producer_and_coordinator_epoch(self, cli: Cli) -> None:
        topic = cli.new_topic(*KEPT)
        producer_id = hang(cli.bootstrap, topic)
        produce_all(cli.bootstrap, topic, [Sent(b"after")])

        def by_hand(epoch: int, coordinator_epoch: int) -> tuple[str, ...]:
            return (
                *("txn", "abort", topic, "0", "--producer-id", str(producer_id)),
                *("--producer-epoch", str(epoch), "--coordinator-epoch", str(coordinator_epoch), "--yes"),
            )

        assert read_committed(cli.bootstrap, topic) == []
        assert cli.json(*by_hand(0, 5)) == {
            "topic": topic,
            "partition": 0,
            "producer_id": producer_id,
            "producer_epoch": 0,
            "coordinator_epoch": 5,
            "start_offset": None,
            "transactional_id": None,
            "status": "aborted",
        }
        assert read_committed(cli.bootstrap, topic) == [b"after"]
        output = cli.fails(*by_hand(0, 4))
        assert "TRANSACTION_COORDINATOR_FENCED" in output
        assert "Run 'ruslo txn producers' to see" in output

    def test_abort_without_an_open_transaction(self, cli: Cli) -> None:
        topic = cli.new_topic(*KEPT)
        assert "it has no open transaction" in cli.fails(
            "txn", "abort", topic, "0", "--start-offset", "0", "-y"
        )
        hang(cli.bootstrap, topic)
        output = cli.fails("txn", "abort", topic, "0", "--start-offset", "7", "-y")
        assert "open transactions start at 0" in output
        result = cli.run("txn", "abort", topic, "0", "--start-offset", "0")
        assert result.exit_code == 2
        assert "Writes an abort marker for the transaction that starts at offset 0" in result.stderr, (
            "it shows what it would do"
        )
        assert "Add --yes" in result.stderr
        assert len(find_hanging(cli, "--topic", topic)) == 1
        cli.ok("txn", "abort", topic, "0", "--start-offset", "0", "--yes")

    def test_partitions_that_do_not_exist(self, cli: Cli) -> None:
        assert "'none-such' does not exist" in cli.fails("txn", "find-hanging", "--topic", "none-such")
        assert "broker 77 does not exist" in cli.fails("txn", "find-hanging", "--broker", "77")

    # -- by transactional id

    def test_abort_by_transactional_id_fences_the_producer(self, cli: Cli) -> None:
        topic, name = cli.new_topic("-p", "2"), new_id()
        producer = begin(cli, name, topic, partitions=2)
        produce_all(cli.bootstrap, topic, [Sent(b"after", partition=index) for index in range(2)])
        assert read_committed(cli.bootstrap, topic, 2) == []
        response = cli.json("txn", "abort", "--transactional-id", name, "--yes")
        (view,) = cli.json("txn", "describe", name)
        assert response == {
            "transactional_id": name,
            "state_before": "Ongoing",
            "partitions": {topic: [0, 1]},
            "producer_id": view["producer_id"],
            "producer_epoch": view["producer_epoch"],
            "status": "aborted",
        }
        assert (view["state"], view["timeout_ms"]) == ("Empty", 60_000)
        assert read_committed(cli.bootstrap, topic, 2) == [b"after", b"after"]
        with pytest.raises(KafkaException) as fenced:
            producer.commit_transaction(CALL_S)
        assert fenced.value.args[0].fatal()
        again = cli.json("txn", "abort", "--transactional-id", name, "--yes")
        assert (again["status"], again["state_before"]) == ("not-open", "Empty")
        assert cli.json("txn", "describe", name)[0]["producer_epoch"] == view["producer_epoch"]
