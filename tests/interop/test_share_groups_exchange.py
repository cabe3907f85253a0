"""Share groups on one data directory: Kafka's tools, and Ruslo and Apache Kafka that alternate."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.share.share_client import SMALL
from tests.support.share.share_node import SHARE_NODE_PROPERTIES, new_share_group, new_topic, send
from tests.support.share.share_reader import read_values
from tests.support.tools.java_tools import run_tool
from tests.support.tools.programs import require_tool

SYSTEMS: dict[str, type[Node]] = {"ruslo": RusloNode, "kafka": ApacheKafka}
PROPERTIES = {**SMALL, **SHARE_NODE_PROPERTIES, "offsets.topic.num.partitions": "2"}
PARTITIONS = 3


class Cluster:
    """One data directory, with the same ports for both systems."""

    def __init__(self, directory: Path, system: str) -> None:
        self.directory = directory
        self.node = self._node(system)
        self.node.start()
        self.topic = new_topic(self.node.bootstrap, PARTITIONS)
        self.group = new_share_group(self.node.bootstrap)

    def hand_over_to(self, system: str) -> None:
        self.node.stop()
        self.node = self._node(system, self.node)
        self.node.start()

    def _node(self, system: str, before: Node | None = None) -> Node:
        return SYSTEMS[system](
            self.directory / system,
            data_dirs=[self.directory / "data"],
            properties=PROPERTIES,
            cluster_id=before.cluster_id if before else None,
            port=before.port if before else None,
            controller_port=before.controller_port if before else None,
        )

    def consume(self, round_: str) -> None:
        """The group gets what is new, and nothing that it has accepted before."""
        sent = [f"{round_}-{number}" for number in range(20)]
        send(self.node.bootstrap, self.topic, sent)
        assert sorted(read_values(self.node.bootstrap, self.group, self.topic, len(sent))) == sorted(sent)

    def share_command(self, *arguments: str) -> list[list[str]]:
        """The rows of Kafka's ``kafka-share-groups.sh`` for the group, without its name."""
        result = run_tool(
            "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
            "--bootstrap-server",
            self.node.bootstrap,
            *arguments,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert "Error" not in result.stdout + result.stderr, result.stdout + result.stderr
        rows = [line.split() for line in result.stdout.splitlines()]
        return [row[1:] for row in rows if row and row[0] == self.group]

    def lags(self) -> dict[str, tuple[str, str]]:
        """Start offset and lag by partition."""
        rows = self.share_command("--describe", "--offsets", "--group", self.group)
        assert {row[0] for row in rows} <= {self.topic}
        return {row[1]: (row[2], row[3]) for row in rows}


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    require_tool("java")
    cluster = Cluster(tmp_path, request.config.getoption("--target"))
    try:
        yield cluster
    finally:
        cluster.node.kill()


def test_kafkas_command_manages_a_group(cluster: Cluster) -> None:
    topic, group = cluster.topic, cluster.group
    cluster.consume("first")
    assert {lag for _, lag in cluster.lags().values()} == {"0"}
    assert cluster.share_command("--describe", "--state", "--group", group)[0][-2:] == ["Empty", "0"]
    assert cluster.share_command("--list") == [[]]
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"]
    assert {row[1]: row[2] for row in cluster.share_command(*reset)} == {str(each): "0" for each in range(3)}
    lags = cluster.lags().values()
    assert ({offset for offset, _ in lags}, sum(int(lag) for _, lag in lags)) == ({"0"}, 20)
    assert len(read_values(cluster.node.bootstrap, group, topic, 20)) == 20
    cluster.share_command("--delete-offsets", "--group", group, "--topic", topic)
    assert cluster.lags() == {}
    # The group has no offsets, so it starts where share.auto.offset.reset says.
    assert len(read_values(cluster.node.bootstrap, group, topic, 20)) == 20
    cluster.share_command("--delete", "--group", group)
    assert cluster.share_command("--list") == []


def test_kafkas_dump_tool_decodes_every_record(cluster: Cluster) -> None:
    cluster.consume("first")
    cluster.share_command("--delete", "--group", cluster.group)
    cluster.node.stop()
    folders = sorted((cluster.directory / "data").glob("__consumer_offsets-*"))
    files = [str(path) for folder in folders for path in sorted(folder.glob("*.log"))]
    result = run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--offsets-decoder",
        "--deep-iteration",
        "--files",
        ",".join(files),
    )
    assert result.returncode == 0, result.stderr
    assert not re.search(r"isvalid: false|invalid bytes|Exception|Failed to decode", result.stdout)
    records = [
        (int(json.loads(key)["type"]), None if value == "<DELETE>" else json.loads(value))
        for key, value in re.findall(r" key: (.*?) payload: (.*)$", result.stdout, re.MULTILINE)
    ]
    assert len(records) == len(re.findall(r"keySize: ", result.stdout))
    assert {kind for kind, value in records if value is not None} == {10, 11, 12, 13, 14, 15}
    assert {kind for kind, value in records if value is None} == {10, 11, 12, 13, 14, 15}
    states = [value["data"] for kind, value in records if kind == 15 and value is not None]
    assert [topic["topicName"] for topic in states[0]["initializingTopics"]] == [cluster.topic]
    assert states[-1]["deletingTopics"][0]["topicName"] == cluster.topic


@pytest.mark.parametrize("order", [("ruslo", "kafka", "ruslo"), ("kafka", "ruslo", "kafka")])
def test_each_system_continues_with_the_groups_of_the_other(
    request: pytest.FixtureRequest, tmp_path: Path, order: tuple[str, ...]
) -> None:
    require_tool("java")
    if request.config.getoption("--target") == "kafka":
        order = ("kafka", "kafka")
    cluster = Cluster(tmp_path, order[0])
    try:
        cluster.consume(order[0])
        for number, system in enumerate(order[1:], 1):
            cluster.hand_over_to(system)
            assert {lag for _, lag in cluster.lags().values()} == {"0"}
            cluster.consume(f"{system}-{number}")
        assert {lag for _, lag in cluster.lags().values()} == {"0"}
    finally:
        cluster.node.kill()
    for log_file in tmp_path.glob("kafka/broker.log"):
        assert not re.search(r"ERROR.*(Group|Share)Coordinator|Failed to load", log_file.read_text())
