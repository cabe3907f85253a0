"""The Java client, through Apache Kafka's own command-line classes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import TopicMaker
from tests.support.brokers.node import Node
from tests.support.clients.librdkafka import Sent, produce_all, read_records
from tests.support.tools.java_tools import run_tool, tool_output
from tests.support.tools.kafka_jars import java_command

pytestmark = pytest.mark.usefixtures("needs_java")

TOOLS = "org.apache.kafka.tools"


def test_topic_command(bootstrap: str) -> None:
    def topics(*arguments: str) -> str:
        return tool_output(f"{TOOLS}.TopicCommand", "--bootstrap-server", bootstrap, *arguments)

    name = "made-by-topic-command"
    topics("--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=5000000")
    assert name in topics("--list").split()
    topics("--alter", "--topic", name, "--partitions", "5")
    description = topics("--describe", "--topic", name)
    assert re.search(r"PartitionCount:\s*5\b", description)
    assert "retention.ms=5000000" in description
    assert len(re.findall(r"Leader: 1\b", description)) == 5
    topics("--delete", "--topic", name)
    assert name not in topics("--list").split()


def test_producer_performance(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(partitions=2)
    arguments = ["--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"]
    properties = [f"bootstrap.servers={bootstrap}", "acks=all", "compression.type=lz4"]

    output = tool_output(f"{TOOLS}.ProducerPerformance", *arguments, "--producer-props", *properties)

    assert "20000 records sent" in output
    assert len(read_records(bootstrap, topic, 2, 20_000)) == 20_000


def test_verifiable_producer(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "500"]

    # It prints its summary when its Java process ends, so it has one of its own.
    command = java_command(f"{TOOLS}.VerifiableProducer", *arguments)
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout
    events = [json.loads(line) for line in output.splitlines()]

    acked = [event["value"] for event in events if event["name"] == "producer_send_success"]
    (summary,) = [event for event in events if event["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (500, 500)
    assert sorted(acked, key=int) == [str(number) for number in range(500)]
    assert [m.value() for m in read_records(bootstrap, topic, 1, 500)] == [b"%d" % n for n in range(500)]


def test_console_producer_and_consumer(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    lines = [f"line {number}" for number in range(50)]
    producing = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", "zstd"]
    tool_output(f"{TOOLS}.ConsoleProducer", *producing, stdin="\n".join(lines) + "\n")

    # The Java consumer without a group reads by partition and offset.
    consuming = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "10"]
    output = tool_output(f"{TOOLS}.consumer.ConsoleConsumer", *consuming, "--max-messages", "40")

    assert output.splitlines() == lines[10:]


def test_config_command_for_broker_loggers(bootstrap: str) -> None:
    loggers = ["--bootstrap-server", bootstrap, "--entity-type", "broker-loggers", "--entity-name", "1"]

    def levels(*arguments: str) -> str:
        return tool_output("kafka.admin.ConfigCommand", *loggers, *arguments)

    levels("--alter", "--add-config", "ruslo.broker.controller=ERROR")
    assert "ruslo.broker.controller=ERROR " in levels("--describe")
    levels("--alter", "--delete-config", "ruslo.broker.controller")
    assert "ruslo.broker.controller=ERROR " not in levels("--describe")
    refused = run_tool("kafka.admin.ConfigCommand", *loggers, "--alter", "--add-config", "root=LOUD")
    assert "InvalidConfigurationException" in refused.stdout + refused.stderr


def test_config_command(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()

    def configs(*arguments: str) -> str:
        return tool_output("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *arguments)

    of_topic = ["--entity-type", "topics", "--entity-name", topic]
    configs(*of_topic, "--alter", "--add-config", "segment.ms=7200000,cleanup.policy=[compact,delete]")
    described = configs(*of_topic, "--describe")
    assert "segment.ms=7200000" in described
    assert "cleanup.policy=compact,delete" in described
    configs(*of_topic, "--alter", "--delete-config", "segment.ms")
    assert "segment.ms=" not in configs(*of_topic, "--describe")

    all_configs = configs("--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "num.partitions=1 " in all_configs
    default = ["--entity-type", "brokers", "--entity-default"]
    configs(*default, "--alter", "--add-config", "log.retention.ms=123456789")
    assert "log.retention.ms=123456789" in configs(*default, "--describe")
    configs(*default, "--alter", "--delete-config", "log.retention.ms")


def test_get_offset_shell(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(partitions=2)
    produce_all(bootstrap, topic, [Sent(b"x", partition=number % 2) for number in range(7)])

    def offsets(time: str) -> list[str]:
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--time", time]
        return sorted(tool_output(f"{TOOLS}.GetOffsetShell", *arguments).split())

    assert offsets("latest") == [f"{topic}:0:4", f"{topic}:1:3"]
    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:0"]


def test_delete_records_command(bootstrap: str, new_topic: TopicMaker, tmp_path: Path) -> None:
    topic = new_topic()
    produce_all(bootstrap, topic, [Sent(b"%d" % number) for number in range(30)])
    expected = tmp_path / "offsets.json"
    expected.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 21}]})
    )

    arguments = ["--bootstrap-server", bootstrap, "--offset-json-file", str(expected)]
    output = tool_output(f"{TOOLS}.DeleteRecordsCommand", *arguments)

    assert "low_watermark: 21" in output
    assert [m.offset() for m in read_records(bootstrap, topic, 1, 9)] == list(range(21, 30))


def test_log_dirs_command(bootstrap: str, new_topic: TopicMaker, node: Node) -> None:
    topic = new_topic()
    produce_all(bootstrap, topic, [Sent(bytes(1000)) for _ in range(20)])

    arguments = ["--bootstrap-server", bootstrap, "--describe", "--topic-list", topic]
    output = tool_output(f"{TOOLS}.LogDirsCommand", *arguments)

    (broker,) = json.loads(output.splitlines()[-1])["brokers"]
    (folder,) = broker["logDirs"]
    assert broker["broker"] == 1
    assert folder["logDir"] == str(node.data_dirs[0])
    assert folder["error"] is None
    (partition,) = folder["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 20_000


def test_dump_log_segments(bootstrap: str, new_topic: TopicMaker, node: Node) -> None:
    topic = new_topic(config={"segment.bytes": "1048576", "index.interval.bytes": "1000"})
    sent = [Sent(b"v" * 200, key=b"k%d" % number) for number in range(8000)]
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
        produce_all(bootstrap, topic, sent, {"compression.type": codec, "batch.num.messages": 40})

    folder = node.data_dirs[0] / f"{topic}-0"
    files = sorted(path for path in folder.iterdir() if path.suffix in {".log", ".index", ".timeindex"})
    assert sum(path.suffix == ".log" for path in files) > 1
    output = tool_output(f"{TOOLS}.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, files)))

    assert len(re.findall(r"^\| offset: \d+ ", output, re.MULTILINE)) == 5 * len(sent)
    assert set(re.findall(r"compresscodec: (\w+)", output)) == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert "isvalid: false" not in output
    assert not re.search(r"mismatch|Mismatches|not found|out of order|corrupt", output)


def test_metadata_quorum_command(bootstrap: str) -> None:
    def quorum(*arguments: str) -> str:
        return tool_output(
            f"{TOOLS}.MetadataQuorumCommand", "--bootstrap-server", bootstrap, "describe", *arguments
        )

    status = quorum("--status")
    assert re.search(r"LeaderId:\s+1\b", status)
    assert re.search(r"CurrentVoters:\s+\[.*1.*\]", status)
    leaders = [
        line for line in quorum("--replication").splitlines() if "Leader" in line and line.startswith("1")
    ]
    assert len(leaders) == 1


def test_cluster_and_features(bootstrap: str, node: Node) -> None:
    assert node.cluster_id in tool_output(
        f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", bootstrap
    )
    features = tool_output(f"{TOOLS}.FeatureCommand", "--bootstrap-server", bootstrap, "describe")
    assert re.search(
        r"Feature: metadata\.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: \S+", features
    )


def test_broker_api_versions_command(bootstrap: str) -> None:
    output = tool_output(f"{TOOLS}.BrokerApiVersionsCommand", "--bootstrap-server", bootstrap)

    for name in ["Produce(0)", "Fetch(1)", "ListOffsets(2)", "Metadata(3)", "CreateTopics(19)"]:
        assert f"{name}: " in output
    assert "ERROR" not in output
