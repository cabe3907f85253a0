"""The share consumer of Kafka's Java client, as ``kafka-console-share-consumer.sh`` runs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.node import Node
from tests.support.share.share_client import SMALL
from tests.support.share.share_node import new_share_group, new_share_node, new_topic, send
from tests.support.share.share_reader import read_values
from tests.support.tools.java_tools import run_tool
from tests.support.tools.programs import require_tool


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    require_tool("java")
    with new_share_node(tmp_path_factory.mktemp("node"), request.config.getoption("--target"), SMALL) as node:
        yield node


def consume(node: Node, group: str, topic: str, count: int, *options: str) -> list[str]:
    """The values that the tool prints; it stops after ``count`` records."""
    result = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        "--bootstrap-server",
        node.bootstrap,
        "--group",
        group,
        "--topic",
        topic,
        "--max-messages",
        str(count),
        "--timeout-ms",
        "30000",
        *options,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split()


def test_the_java_client_reads_what_its_group_has_not_read(node: Node) -> None:
    topic, group = new_topic(node.bootstrap, 3), new_share_group(node.bootstrap)
    sent = [f"v{number}" for number in range(60)]
    send(node.bootstrap, topic, sent)
    first = consume(node, group, topic, 60)
    assert sorted(first) == sorted(sent)
    send(node.bootstrap, topic, ["later"])
    assert consume(node, group, topic, 1) == ["later"]


def test_records_that_the_java_client_releases_are_delivered_again(node: Node) -> None:
    topic, group = new_topic(node.bootstrap), new_share_group(node.bootstrap)
    send(node.bootstrap, topic, ["a", "b"])
    assert consume(node, group, topic, 2, "--release") == ["a", "b"]
    assert read_values(node.bootstrap, group, topic, 2) == ["a", "b"]


def test_records_that_the_java_client_rejects_are_not_delivered_again(node: Node) -> None:
    topic, group = new_topic(node.bootstrap), new_share_group(node.bootstrap)
    send(node.bootstrap, topic, ["a", "b"])
    assert consume(node, group, topic, 2, "--reject") == ["a", "b"]
    send(node.bootstrap, topic, ["c"])
    assert read_values(node.bootstrap, group, topic, 1) == ["c"]
