"""How long each partition stalls while a member joins and leaves: eager, cooperative, consumer protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import Settings, close_member
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES

TOPIC = "steady"
PARTITIONS = 6
RECORD_INTERVAL_S = 0.01
ATTEMPTS = 3
"""A busy machine may stall by itself, so the measurement is repeated."""

# Members with different heartbeat intervals notice a rebalance at different times. With the eager protocol
# the faster one revokes everything and then waits for the slower one.
QUICK_MS, SLOW_MS = 200, 1500
MODES: dict[str, list[Settings]] = {
    "eager": [
        {"partition.assignment.strategy": "range", "heartbeat.interval.ms": interval}
        for interval in (QUICK_MS, SLOW_MS, QUICK_MS)
    ],
    "cooperative": [
        {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": interval}
        for interval in (QUICK_MS, SLOW_MS, QUICK_MS)
    ],
    "consumer": [{"group.protocol": "consumer"}] * 3,
}


class SteadyProducer(threading.Thread):
    """Writes one record to every partition, repeatedly."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="producer")
        self.stopping = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def run(self) -> None:
        while not self.stopping.wait(RECORD_INTERVAL_S):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, b"tick", partition=partition)
            self._producer.poll(0)
        self._producer.flush(30)


class TimedMember(threading.Thread):
    """A consumer that notes the time of each record by partition."""

    def __init__(self, bootstrap: str, group: str, settings: Settings) -> None:
        super().__init__(name="member")
        self.stopping = threading.Event()
        self.assigned: frozenset[int] = frozenset()
        self.arrivals: list[tuple[int, float]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "latest",
                "log_level": 0,
                **settings,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe([TOPIC], on_assign=self._on_assign, on_revoke=self._on_revoke)
        while not self.stopping.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                partition = message.partition()
                assert partition is not None
                self.arrivals.append((partition, time.monotonic()))
        close_member(self._consumer)
        self.assigned = frozenset()

    def stop(self) -> None:
        self.stopping.set()
        self.join(30)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned |= {tp.partition for tp in partitions}

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned -= {tp.partition for tp in partitions}


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    system = ApacheKafka if request.config.getoption("--target") == "kafka" else RusloNode
    with system(tmp_path, properties=GROUP_NODE_PROPERTIES) as node:
        yield node


def wait_for_shares(members: list[TimedMember], shares: list[int]) -> None:
    """Wait until the members own these numbers of partitions and every partition makes progress."""
    deadline = time.monotonic() + 90
    while sorted(len(member.assigned) for member in members) != shares:
        assert time.monotonic() < deadline, [member.assigned for member in members]
        time.sleep(0.002)
    since = time.monotonic()
    while {p for member in members for p, at in member.arrivals if at > since} != set(range(PARTITIONS)):
        assert time.monotonic() < deadline, "a partition makes no progress"
        time.sleep(0.02)


def longest_stalls(members: list[TimedMember], since: float) -> list[float]:
    """The longest time without a record for each partition, in milliseconds."""
    longest = []
    for partition in range(PARTITIONS):
        times = sorted(at for m in members for p, at in m.arrivals if p == partition and at > since)
        longest.append(max(after - before for before, after in pairwise(times)) * 1000)
    return longest


Measured = tuple[list[float], frozenset[int]]
"""The stalls while a third member joins and leaves, and the partitions that it owned."""


def measure(bootstrap: str, mode: str, group: str) -> Measured:
    members = [TimedMember(bootstrap, group, settings) for settings in MODES[mode]]
    first, second, third = members
    try:
        first.start()
        second.start()
        wait_for_shares([first, second], [3, 3])
        time.sleep(0.2)
        since = time.monotonic()
        time.sleep(0.1)
        third.start()
        wait_for_shares(members, [2, 2, 2])
        moved = third.assigned
        time.sleep(0.3)
        third.stop()
        wait_for_shares([first, second], [3, 3])
        time.sleep(0.2)
    finally:
        for member in members:
            if member.ident is not None:
                member.stop()
    return longest_stalls(members, since), moved


def test_partitions_that_do_not_move_do_not_stall(node: Node) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(timeout=30)
    producer = SteadyProducer(node.bootstrap)
    producer.start()
    broken: list[str] = []
    try:
        for attempt in range(ATTEMPTS):
            measured = {mode: measure(node.bootstrap, mode, f"{mode}-{attempt}") for mode in MODES}
            show(measured)
            broken = broken_guarantees(measured)
            if not broken:
                break
    finally:
        producer.stopping.set()
        producer.join(30)
    assert broken == []


def show(measured: Mapping[str, Measured]) -> None:
    print("\nlongest time without a record in ms (* partition that moved)")
    print("mode        " + "".join(f"{f'p{partition}':>9}" for partition in range(PARTITIONS)))
    for mode, (times, moved) in measured.items():
        cells = (f"{time_ms:8.0f}{'*' if p in moved else ' '}" for p, time_ms in enumerate(times))
        print(f"{mode:<12}" + "".join(cells))


def broken_guarantees(measured: Mapping[str, Measured]) -> list[str]:
    broken = []
    eager_ms = max(measured["eager"][0])
    for mode in ("cooperative", "consumer"):
        times, moved = measured[mode]
        assert len(moved) == 2
        stayed_ms = [time_ms for p, time_ms in enumerate(times) if p not in moved]
        moved_ms = [time_ms for p, time_ms in enumerate(times) if p in moved]
        if median(stayed_ms) >= max(moved_ms):
            broken.append(f"{mode}: partitions that stay stall as long as those that move")
        if max(stayed_ms) >= eager_ms:
            broken.append(f"{mode}: partitions that stay stall as long as with eager rebalances")
    return broken
