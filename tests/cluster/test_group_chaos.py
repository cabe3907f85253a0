"""Consumers that are killed and started at random under load: nothing is lost, nothing applied twice.

RUSLO_CHAOS_SECONDS sets the duration; `make soak` runs for minutes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.groups.chaos_consumer import ChaosGroup
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES

CHAOS_S = float(os.environ.get("RUSLO_CHAOS_SECONDS", "18"))
TOPIC = "load"
PARTITIONS = 8
MEMBERS = 10
RECORDS_PER_S = 2000
GROUP_KINDS = [
    ("eager", "committed"),
    ("consumer", "committed"),
    ("cooperative", "stored"),
    ("consumer", "stored"),
]


class Load(threading.Thread):
    """Records at a steady rate, spread evenly over the partitions."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="load")
        self.stopping = threading.Event()
        self.sent = [0] * PARTITIONS
        self.failures: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )

    def run(self) -> None:
        while not self.stopping.wait(0.02):
            for number in range(RECORDS_PER_S // 50):
                partition = number % PARTITIONS
                self._producer.produce(TOPIC, b"x" * 100, partition=partition, on_delivery=self._on_delivery)
                self.sent[partition] += 1
            self._producer.poll(0)
        if self._producer.flush(60):
            self.failures.append("some records were never acked")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))


class Members:
    """The running members of all groups."""

    def __init__(self, bootstrap: str, groups: list[ChaosGroup]) -> None:
        self._bootstrap = bootstrap
        self._groups = groups
        self._running: list[tuple[ChaosGroup, subprocess.Popen[bytes]]] = []
        self.kills = 0
        self.joins = 0

    def __len__(self) -> int:
        return len(self._running)

    def join(self, group: ChaosGroup) -> None:
        self.joins += 1
        self._running.append((group, group.start_member(self._bootstrap)))

    def kill(self, index: int) -> None:
        """Kill a member with kill -9: the group notices when its session times out."""
        self.kills += 1
        _, process = self._running.pop(index)
        process.kill()
        process.wait(90)

    def leave(self, index: int) -> None:
        _, process = self._running.pop(index)
        process.send_signal(signal.SIGTERM)
        # A member that is still starting, on a busy machine, has no signal handler yet and ends at once.
        assert process.wait(90) in (0, -signal.SIGTERM), "a consumer ended with an error"

    def fill_up(self) -> None:
        """Give every group at least one member."""
        for group in self._groups:
            if not any(member_of == group for member_of, _ in self._running):
                self.join(group)

    def check_alive(self) -> None:
        for group, process in self._running:
            assert process.poll() is None, f"a member of {group.name} ended by itself"

    def stop(self) -> None:
        for _, process in self._running:
            process.send_signal(signal.SIGTERM)
        for _, process in self._running:
            process.wait(60)
        self._running.clear()


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    system = ApacheKafka if request.config.getoption("--target") == "kafka" else RusloNode
    with system(tmp_path / "node", properties=GROUP_NODE_PROPERTIES) as node:
        yield node


def prepare(node: Node, groups: list[ChaosGroup]) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(timeout=30)
    for group in groups:
        group.open_output().close()
        if group.protocol == "consumer":  # the members of the classic protocol send their own session timeout
            operation = AlterConfigOpType.SET
            entry = ConfigEntry("consumer.session.timeout.ms", "3000", incremental_operation=operation)
            resource = ConfigResource(ResourceType.GROUP, group.name, incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(timeout=30)


def applied(group: ChaosGroup) -> Counter[tuple[int, int]]:
    """How often each record was applied."""
    output = group.open_output()
    try:
        return Counter(output.execute("SELECT partition, offset FROM applied").fetchall())
    finally:
        output.close()


@pytest.mark.timeout(CHAOS_S + 240)
def test_no_record_is_lost_or_applied_twice(node: Node, tmp_path: Path) -> None:
    source = random.Random()
    groups = [ChaosGroup(*kind, TOPIC, tmp_path) for kind in GROUP_KINDS]
    prepare(node, groups)
    load = Load(node.bootstrap)
    members = Members(node.bootstrap, groups)
    load.start()
    try:
        for number in range(MEMBERS):
            members.join(groups[number % len(groups)])
        end = time.monotonic() + CHAOS_S
        while time.monotonic() < end:
            time.sleep(source.uniform(0.2, 1.0))
            members.check_alive()
            if len(members) >= MEMBERS or (len(members) > MEMBERS // 2 and source.random() < 0.5):
                index = source.randrange(len(members))
                (members.leave if source.random() < 0.25 else members.kill)(index)
            else:
                members.join(source.choice(groups))
        load.stopping.set()
        load.join(90)
        members.fill_up()
        wanted = {(partition, offset) for partition, sent in enumerate(load.sent) for offset in range(sent)}
        deadline = time.monotonic() + 90
        while not all(wanted <= applied(group).keys() for group in groups) and time.monotonic() < deadline:
            time.sleep(0.5)
        members.check_alive()
    finally:
        load.stopping.set()
        members.stop()

    assert load.failures == []
    print(f"\n{sum(load.sent)} records, {members.joins} joins, {members.kills} kills")
    for group in groups:
        times = applied(group)
        duplicates = sum(count - 1 for count in times.values())
        print(f"{group.name}: {len(times)} applied, {duplicates} duplicates")
        assert times.keys() == wanted, f"{group.name} lost {len(wanted - times.keys())} records"
        if group.positions == "stored":
            assert duplicates == 0, group.name
