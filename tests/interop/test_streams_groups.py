"""Applications of Kafka Streams with ``group.protocol=streams``, and Apache Kafka's tool for their groups."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.testing import EmbeddedCluster
from tests.interop.conftest import TopicMaker
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import Sent, produce_all
from tests.support.clients.workers import Workers
from tests.support.tools.java_tools import run_tool
from tests.support.tools.kafka_jars import support_java_command
from tests.support.tools.programs import require_tool
from tests.support.txns.transactional_clients import Feed, committed_messages

pytestmark = pytest.mark.usefixtures("needs_java")

PARTITIONS = 4
WORDS = [f"word-{number}" for number in range(20)]
PROPERTIES = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.assignment.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "300",
}
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
DONE_WITHIN_S = 120
SYSTEMS: dict[str, type[Node]] = {"ruslo": RusloNode, "kafka": ApacheKafka}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    require_tool("java")
    with EmbeddedCluster(properties=PROPERTIES) as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def application(
    bootstrap: str, group: str, source: str, target: str, directory: Path, name: object, *configs: str
) -> subprocess.Popen[bytes]:
    state = str(directory / f"state-{name}")
    arguments = (bootstrap, group, source, target, state, "group.protocol=streams", *configs)
    with (directory / f"{name}.log").open("ab") as log:
        return subprocess.Popen(support_java_command("CountingStreams", *arguments), stdout=log, stderr=log)


def counts(bootstrap: str, topic: str) -> dict[str, list[int]]:
    """The counts written for each word, in the order of its partition."""
    found: dict[str, list[int]] = {}
    for message in committed_messages(bootstrap, topic, PARTITIONS):
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        found.setdefault(key.decode(), []).append(int(value))
    return found


def wait_for(problem: Callable[[], str | None]) -> None:
    """Wait until there is no problem any more."""
    deadline = time.monotonic() + DONE_WITHIN_S
    while (found := problem()) is not None:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def wait_for_counts(bootstrap: str, topic: str, number: int, workers: Workers) -> None:
    def problem() -> str | None:
        workers.check_alive()
        written = sum(map(len, counts(bootstrap, topic).values()))
        return None if written >= number else f"{written} of {number} counts are written"

    wait_for(problem)


def tool(bootstrap: str, *arguments: str) -> str:
    result = run_tool(TOOL, "--bootstrap-server", bootstrap, *arguments)
    return result.stdout + result.stderr


def test_every_word_is_counted_once_although_instances_are_killed(
    bootstrap: str, new_topic: TopicMaker, group: str, tmp_path: Path
) -> None:
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    # With standby replicas a task moves to an instance that has its state.
    run_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", bootstrap, "--entity-type", "groups", "--entity-name", group),
        *("--alter", "--add-config", "streams.num.standby.replicas=1"),
    )

    def start(slot: int) -> subprocess.Popen[bytes]:
        return application(
            bootstrap,
            group,
            source,
            target,
            tmp_path,
            slot,
            "num.stream.threads=2",
            "producer.transaction.timeout.ms=10000",
        )

    chance = Random(10_71)
    with Workers(3, start) as instances, Feed(bootstrap, source, WORDS, chance) as feed:
        instances.start(0)
        instances.start(1)
        wait_for_counts(bootstrap, target, 50, instances)
        members = tool(bootstrap, "--describe", "--group", group, "--members", "--verbose")
        assert members.count("streams ") >= 4, members
        assert "STANDBY" in members
        instances.kill(0)
        instances.start(2)
        written = sum(map(len, counts(bootstrap, target).values()))
        wait_for_counts(bootstrap, target, written + 50, instances)
        instances.start(0)
        instances.kill(1)
        sent = Counter(feed.stop())
        wait_for_counts(bootstrap, target, sum(sent.values()), instances)
        instances.leave(0)
        instances.leave(2)
    assert counts(bootstrap, target) == {word: list(range(1, count + 1)) for word, count in sent.items()}


def test_apache_kafka_s_tool(bootstrap: str, new_topic: TopicMaker, group: str, tmp_path: Path) -> None:
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    produce_all(bootstrap, source, [Sent(word.encode()) for word in WORDS])

    def start(slot: int) -> subprocess.Popen[bytes]:
        return application(bootstrap, group, source, target, tmp_path, slot)

    with Workers(1, start) as instances:
        instances.start(0)
        wait_for_counts(bootstrap, target, len(WORDS), instances)
        assert group in tool(bootstrap, "--list").split()
        wait_for(
            lambda: (
                None
                if "Stable" in (state := tool(bootstrap, "--describe", "--group", group, "--state"))
                else state
            )
        )
        assert f"{group}-by-value-repartition" in tool(bootstrap, "--describe", "--group", group)
        refused = tool(bootstrap, "--delete", "--group", group)
        assert "could not be deleted" in refused
        instances.leave(0)
    wait_for(
        lambda: (
            None
            if "Empty" in (state := tool(bootstrap, "--describe", "--group", group, "--state"))
            else state
        )
    )
    tool(bootstrap, "--reset-offsets", "--group", group, "--all-input-topics", "--to-earliest", "--execute")
    assert "successful" in tool(bootstrap, "--delete", "--group", group)
    assert group not in tool(bootstrap, "--list").split()


@pytest.mark.parametrize("systems", [("ruslo", "kafka", "ruslo"), ("kafka", "ruslo", "kafka")])
def test_each_system_continues_the_group_of_the_other(tmp_path: Path, systems: tuple[str, ...]) -> None:
    """One application runs all the time; the brokers alternate on one directory."""
    require_tool("java")
    source, target, group = "words", "counts", "application"
    node: Node | None = None

    def start(slot: int) -> subprocess.Popen[bytes]:
        assert node is not None
        return application(node.bootstrap, group, source, target, tmp_path, slot)

    member_ids = set()
    with Workers(1, start) as instances:
        try:
            for run, system in enumerate(systems, 1):
                before, node = node, None
                node = SYSTEMS[system](
                    tmp_path / system,
                    data_dirs=[tmp_path / "data"],
                    properties={
                        "broker.session.timeout.ms": "1000",
                        "broker.heartbeat.interval.ms": "200",
                        **PROPERTIES,
                        "group.streams.session.timeout.ms": "30000",
                        "group.streams.max.session.timeout.ms": "60000",
                    },
                    cluster_id=before.cluster_id if before else None,
                    port=before.port if before else None,
                    controller_port=before.controller_port if before else None,
                )
                node.start()
                if before is None:
                    admin = AdminClient({"bootstrap.servers": node.bootstrap})
                    topics = [NewTopic(name, PARTITIONS, 1) for name in (source, target)]
                    for created in admin.create_topics(topics).values():
                        created.result(timeout=30)
                    instances.start(0)
                produce_all(node.bootstrap, source, [Sent(word.encode()) for word in WORDS])
                wait_for_counts(node.bootstrap, target, run * len(WORDS), instances)
                described = tool(node.bootstrap, "--describe", "--group", group, "--members", "--verbose")
                member_ids |= {line.split()[3] for line in described.splitlines() if " streams " in line}
                found = counts(node.bootstrap, target)
                node.stop()
        finally:
            if node is not None:
                node.kill()
    assert found == {word: list(range(1, len(systems) + 1)) for word in WORDS}
    assert len(member_ids) == 1, "the member had to rejoin"
