"""The files of ``__consumer_offsets``: Kafka's tool decodes them, and either system continues with them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES, Protocol
from tests.support.tools.java_tools import run_tool
from tests.support.tools.programs import require_tool

SYSTEMS: dict[str, type[Node]] = {"ruslo": RusloNode, "kafka": ApacheKafka}
TOPIC = "t"
PARTITIONS = 4
OFFSET = 1
"""The type of records that hold committed offsets."""
PROTOCOLS: tuple[Protocol, ...] = ("classic", "consumer")


class Cluster:
    """One data directory, with the same ports for both systems."""

    def __init__(self, directory: Path, system: str) -> None:
        self.directory = directory
        self.node = self._node(system)

    def start(self) -> None:
        self.node.start()
        self.admin = AdminClient({"bootstrap.servers": self.node.bootstrap, "log_level": 0})

    def hand_over_to(self, system: str) -> None:
        self.node.stop()
        self.node = self._node(system, self.node)
        self.start()

    def _node(self, system: str, before: Node | None = None) -> Node:
        return SYSTEMS[system](
            self.directory / system,
            data_dirs=[self.directory / "data"],
            properties=GROUP_NODE_PROPERTIES,
            cluster_id=before.cluster_id if before else None,
            port=before.port if before else None,
            controller_port=before.controller_port if before else None,
        )

    def create_topic(self) -> None:
        self.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(timeout=30)

    def commit_without_joining(self, group: str, offsets: dict[int, int], note: str = "") -> None:
        consumer = self._consumer(group, "classic")
        tps = [TopicPartition(TOPIC, index, offset, note) for index, offset in offsets.items()]
        consumer.commit(offsets=tps, asynchronous=False)
        consumer.close()

    def join_and_commit(self, group: str, protocol: Protocol, offset: int) -> None:
        """Join, get every partition assigned, commit and leave."""
        consumer = self._consumer(group, protocol)
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + 30
        while len(consumer.assignment()) < PARTITIONS:
            assert time.monotonic() < deadline, self.node.log_tail()
            consumer.poll(0.1)
        tps = [TopicPartition(TOPIC, index, offset + index) for index in range(PARTITIONS)]
        consumer.commit(offsets=tps, asynchronous=False)
        consumer.close()

    def _consumer(self, group: str, protocol: Protocol) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def groups(self) -> dict[str, tuple[str, str]]:
        """The state and type of each group id."""
        result = self.admin.list_consumer_groups(request_timeout=30).result(timeout=60)
        assert result.errors == []
        return {each.group_id: (each.state.name, each.type.name) for each in result.valid}

    def offsets(self, group: str) -> dict[int, tuple[int, str | None]]:
        """The committed offset and metadata of each partition."""
        requested = self.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=30
        )
        found = requested[group].result(timeout=60).topic_partitions
        return {tp.partition: (tp.offset, tp.metadata or None) for tp in found}

    def wait_for_groups(self) -> None:
        """Wait until the offsets topic has leaders and is loaded; until then lists are empty or errors."""
        deadline = time.monotonic() + 60
        while True:
            result = self.admin.list_consumer_groups(request_timeout=30).result(timeout=60)
            if {each.group_id for each in result.valid} >= EXPECTED_GROUPS.keys() and not result.errors:
                return
            assert time.monotonic() < deadline, (result.valid, result.errors)
            time.sleep(0.1)

    def log_files(self) -> list[str]:
        folders = sorted((self.directory / "data").glob("__consumer_offsets-*"))
        return [str(path) for folder in folders for path in sorted(folder.glob("*.log"))]


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    require_tool("java")
    cluster = Cluster(tmp_path, request.config.getoption("--target"))
    cluster.start()
    try:
        cluster.create_topic()
        yield cluster
    finally:
        cluster.node.kill()


def fill(cluster: Cluster) -> None:
    """Create groups of every type with offsets, and delete some."""
    cluster.commit_without_joining("simple", {0: 11, 2: 13}, "a note")
    cluster.commit_without_joining("simple", {0: 12})
    for protocol in PROTOCOLS:
        cluster.join_and_commit(f"once-{protocol}", protocol, 100)
        cluster.join_and_commit(f"deleted-{protocol}", protocol, 1)
        cluster.admin.delete_consumer_groups([f"deleted-{protocol}"])[f"deleted-{protocol}"].result(30)


EXPECTED_GROUPS = {
    "simple": ("EMPTY", "CLASSIC"),
    "once-classic": ("EMPTY", "CLASSIC"),
    "once-consumer": ("EMPTY", "CONSUMER"),
}
EXPECTED_OFFSETS = {
    "simple": {0: (12, None), 2: (13, "a note")},
    "once-classic": {index: (100 + index, None) for index in range(PARTITIONS)},
    "once-consumer": {index: (100 + index, None) for index in range(PARTITIONS)},
}


def assert_all_groups_exist(cluster: Cluster) -> None:
    cluster.wait_for_groups()
    assert {name: cluster.groups().get(name) for name in EXPECTED_GROUPS} == EXPECTED_GROUPS
    assert {name: cluster.offsets(name) for name in EXPECTED_OFFSETS} == EXPECTED_OFFSETS
    assert not any(name.startswith("deleted") for name in cluster.groups())


def test_kafkas_dump_tool_decodes_every_record(cluster: Cluster) -> None:
    fill(cluster)
    cluster.node.stop()
    result = run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--offsets-decoder",
        "--deep-iteration",
        "--files",
        ",".join(cluster.log_files()),
    )
    assert result.returncode == 0, result.stderr
    assert not re.search(r"isvalid: false|invalid bytes|Exception|Failed to decode", result.stdout)
    records = [
        (json.loads(key), None if value == "<DELETE>" else json.loads(value))
        for key, value in re.findall(r" key: (.*?) payload: (.*)$", result.stdout, re.MULTILINE)
    ]
    assert len(records) == len(re.findall(r"keySize: ", result.stdout))
    assert {int(key["type"]) for key, _ in records} == {1, 2, 3, 4, 5, 6, 7, 8}
    versions = {(int(key["type"]), int(value["version"])) for key, value in records if value is not None}
    assert versions == {(1, 4), (2, 3), (3, 0), (5, 0), (6, 0), (7, 0), (8, 0)}
    simple = [
        # The Python client also sends the zero byte after the metadata.
        (key["data"]["partition"], value["data"]["offset"], value["data"]["metadata"].rstrip("\0"))
        for key, value in records
        if int(key["type"]) == OFFSET and key["data"]["group"] == "simple" and value is not None
    ]
    assert simple == [(0, 11, "a note"), (2, 13, "a note"), (0, 12, "")]


@pytest.mark.parametrize("order", [("ruslo", "kafka", "ruslo"), ("kafka", "ruslo", "kafka")])
def test_each_system_continues_with_the_groups_of_the_other(
    request: pytest.FixtureRequest, tmp_path: Path, order: tuple[str, ...]
) -> None:
    require_tool("java")
    if request.config.getoption("--target") == "kafka":
        order = ("kafka", "kafka")
    cluster = Cluster(tmp_path, order[0])
    cluster.start()
    try:
        cluster.create_topic()
        fill(cluster)
        assert_all_groups_exist(cluster)
        for round_, system in enumerate(order[1:]):
            cluster.hand_over_to(system)
            assert_all_groups_exist(cluster)
            # Each system changes the groups of the other, and the next one sees those changes, too.
            for protocol in PROTOCOLS:
                cluster.join_and_commit(f"once-{protocol}", protocol, 100)
                cluster.join_and_commit(f"round-{round_}-{protocol}", protocol, round_)
            for earlier in range(round_ + 1):
                for protocol in PROTOCOLS:
                    expected = {index: (earlier + index, None) for index in range(PARTITIONS)}
                    assert cluster.offsets(f"round-{earlier}-{protocol}") == expected
            assert_described_by_kafkas_tool(cluster)
    finally:
        cluster.node.kill()
    for log_file in tmp_path.glob("kafka/broker.log"):
        text = log_file.read_text()
        assert "Unknown record type" not in text
        assert not re.search(r"ERROR.*GroupCoordinator|Failed to load", text)


def assert_described_by_kafkas_tool(cluster: Cluster) -> None:
    result = run_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server",
        cluster.node.bootstrap,
        "--describe",
        "--group",
        "simple",
    )
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("simple ")]
    # Columns: group, topic, partition, current offset.
    assert sorted((row[1], row[2], row[3]) for row in rows) == [(TOPIC, "0", "12"), (TOPIC, "2", "13")]
