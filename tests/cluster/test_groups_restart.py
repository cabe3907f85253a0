"""kill -9 during commits: acknowledged offsets survive the restart and never decrease."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import close_member
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES

KILLS = 8
TOPIC = "t"
Kind = Literal["plain", "classic", "consumer"]
# A committer without membership, and members by both protocols.
KINDS: tuple[Kind, ...] = ("plain", "plain", "classic", "consumer")


class Committer(threading.Thread):
    """Commits increasing offsets one after the other, through every restart of the broker."""

    def __init__(self, bootstrap: str, number: int, kind: Kind) -> None:
        super().__init__(name=f"committer-{number}")
        self.group = f"group-{number}-{kind}"
        self.attempted = 0
        self.acked = 0
        self.last_refusal = ""
        self.ended = threading.Event()
        self._kind = kind
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": self.group,
            "group.protocol": "consumer" if kind == "consumer" else "classic",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
        if kind != "consumer":
            settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
        self._consumer = Consumer(settings)

    def run(self) -> None:
        tp = TopicPartition(TOPIC, 0)
        if self._kind == "plain":
            self._consumer.assign([tp])
        else:
            self._consumer.subscribe([TOPIC])
        while not self.ended.is_set():
            self._consumer.poll(0.001)
            if self._kind != "plain" and not self._consumer.assignment():
                continue
            self.attempted += 1
            try:
                (result,) = self._consumer.commit(
                    offsets=[TopicPartition(TOPIC, 0, self.attempted)], asynchronous=False
                )
            except KafkaException as error:
                self.last_refusal = str(error)
                continue
            if result.error is None:
                self.acked = self.attempted
            else:
                self.last_refusal = str(result.error)
        close_member(self._consumer)


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    system = ApacheKafka if request.config.getoption("--target") == "kafka" else RusloNode
    node = system(
        tmp_path,
        properties={
            **GROUP_NODE_PROPERTIES,
            # The controller unfences a killed broker only after its old session has ended.
            "broker.session.timeout.ms": "1000",
            "broker.heartbeat.interval.ms": "200",
        },
    )
    node.start()
    yield node
    node.kill()


def test_acked_commits_survive_kill_9(node: Node) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(timeout=30)
    committers = [Committer(node.bootstrap, number, kind) for number, kind in enumerate(KINDS)]
    source = random.Random(848)
    for committer in committers:
        committer.start()
    try:
        for _ in range(KILLS):
            wait_for_progress(committers)
            time.sleep(source.uniform(0, 0.3))
            acked = [committer.acked for committer in committers]
            node.kill()
            node.start()
            # Later attempts may have succeeded since the restart, but no offset may have decreased.
            for committer, at_least in zip(committers, acked, strict=True):
                assert committed(node, committer.group) >= at_least
    finally:
        for committer in committers:
            committer.ended.set()
        for committer in committers:
            committer.join(60)
    for committer in committers:
        assert not committer.is_alive()
        assert committer.acked <= committed(node, committer.group) <= committer.attempted


def committed(node: Node, group: str) -> int:
    """The committed offset, after the coordinator has loaded."""
    reader = Consumer({"bootstrap.servers": node.bootstrap, "group.id": group, "log_level": 0})
    try:
        (tp,) = reader.committed([TopicPartition(TOPIC, 0)], timeout=30)
    finally:
        reader.close()
    return tp.offset


def wait_for_progress(committers: list[Committer]) -> None:
    """Wait until every committer has committed a higher offset."""
    deadline = time.monotonic() + 60
    for committer, before in [(committer, committer.acked) for committer in committers]:
        while committer.acked == before:
            assert time.monotonic() < deadline, f"{committer.group}: {committer.last_refusal}"
            time.sleep(0.005)
