"""kill -9 of one broker after the other: a share group gets every acknowledged record."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

import ruslo
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Change, Operation, Resource
from ruslo.client.admin.topics import NewTopic
from tests.support.brokers.quorum import QuorumCluster
from tests.support.share.share_node import SHARE_NODE_PROPERTIES

PROPERTIES = {
    **SHARE_NODE_PROPERTIES,
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "6",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
TOPIC, GROUP = "t", "workers"
ROUND = 60
EARLIEST = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "2000"}


class Worker(threading.Thread):
    """A member that accepts what it gets, through every restart of a broker."""

    def __init__(self, bootstrap: str, seen: Counter[str]) -> None:
        super().__init__(name="worker")
        self.ended = threading.Event()
        self._seen = seen
        self._consumer = ruslo.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
        self._consumer.subscribe([TOPIC])

    def run(self) -> None:
        with self._consumer:
            while not self.ended.is_set():
                self._seen.update((record.value or b"").decode() for record in self._consumer.poll(0.5))


def test_every_record_is_delivered_while_brokers_are_killed(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    with QuorumCluster(tmp_path, properties=PROPERTIES).start() as cluster:
        asyncio.run(_prepare(cluster.bootstrap))
        workers = [Worker(cluster.bootstrap, seen) for _ in range(2)]
        for worker in workers:
            worker.start()
        try:
            sent = _send(cluster, 0)
            _wait_for(cluster, seen, sent)
            for number, node in enumerate(cluster.brokers, 1):
                node.kill()
                sent |= _send(cluster, number)
                _wait_for(cluster, seen, sent)
                node.start()
        finally:
            for worker in workers:
                worker.ended.set()
            for worker in workers:
                worker.join()
        assert seen.keys() == sent


async def _prepare(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        created = await admin.topics.create([NewTopic(TOPIC, 4, 3, {"min.insync.replicas": "2"})])
        assert not isinstance(created[TOPIC], Exception), created
        changes = {name: Change(Operation.SET, value) for name, value in EARLIEST.items()}
        await admin.configs.alter(Resource.group(GROUP), changes)


def _wait_for(cluster: QuorumCluster, seen: Counter[str], sent: set[str]) -> None:
    cluster.until(lambda: seen.keys() >= sent or None)


def _send(cluster: QuorumCluster, round_: int) -> set[str]:
    values = [f"{round_}-{number}" for number in range(ROUND)]
    with ruslo.Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0}) as producer:
        for value in values:
            producer.send(TOPIC, value)
    return set(values)
