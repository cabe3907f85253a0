"""How long thousands of partitions that come, go and change hands hold up the event loops of a cluster:
``python -m bench.cluster_life FOLDER``.

It prints, of every node, the longest step (processor time of one callback, see ``probed_node``) while topics
are created and deleted, and nodes are killed, frozen, stopped and started.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import ElectionType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.probed_node import Probed
from tests.support.brokers.quorum import QuorumCluster, QuorumNode

TOPICS = 40
PARTITIONS = 100
COPIES = 3
GIVE_UP_AFTER_S = 300.0
QUIET_S = 12.0
LAG_MS = 6_000
OFTEN = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": str(LAG_MS),
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.flush.start.offset.checkpoint.interval.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
    "metadata.log.max.record.bytes.between.snapshots": "200000",
    "broker.session.timeout.ms": "30000",
}
"""Shorter intervals of periodic work, and a session timeout longer than a frozen process."""


class LifeNode(QuorumNode, Probed):
    """A node of a cluster with the probe."""


class LifeCluster(QuorumCluster):
    node_type = LifeNode


class ClusterLife:
    def __init__(self, cluster: LifeCluster) -> None:
        self._cluster = cluster
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        self._names = [f"life-{number}" for number in range(TOPICS)]

    def run(self) -> None:
        nodes = self._cluster.nodes
        with self._watched("creation"):
            self._create()
        with self._watched("records everywhere"):
            self._produce()
        with self._watched("periodic tasks"):
            time.sleep(QUIET_S)
        for who, role in ((self._controller(), "controller"), (self._follower(), "other")):
            with self._watched(f"kill -9 ({role})"):
                nodes[who].kill()
                self._until_in_sync(COPIES - 1)
            with self._watched(f"return ({role})"):
                nodes[who].start(GIVE_UP_AFTER_S)
                self._until_in_sync(COPIES)
        with self._watched("preferred leaders"):
            self._admin.elect_leaders(ElectionType.PREFERRED).result(GIVE_UP_AFTER_S)
        with self._watched("records everywhere"):
            self._produce()
        for node_id, node in nodes.items():
            with self._watched(f"stop of {node_id}"):
                node.stop(GIVE_UP_AFTER_S)
            with self._watched(f"start of {node_id}"):
                node.start(GIVE_UP_AFTER_S)
                self._until_in_sync(COPIES)
        with self._watched("preferred leaders"):
            self._admin.elect_leaders(ElectionType.PREFERRED).result(GIVE_UP_AFTER_S)
        frozen = nodes[self._follower()]
        with self._watched("shrinking in-sync sets"):
            os.kill(frozen.pid, signal.SIGSTOP)
            # Acknowledged by all in-sync replicas, so when it is none any more.
            self._produce()
        with self._watched("growing in-sync sets"):
            os.kill(frozen.pid, signal.SIGCONT)
            self._until_in_sync(COPIES)
        with self._watched("deletion"):
            for future in self._admin.delete_topics(self._names).values():
                future.result(GIVE_UP_AFTER_S)
            time.sleep(QUIET_S / 2)

    @contextmanager
    def _watched(self, phase: str) -> Iterator[None]:
        since_s = time.monotonic()
        yield
        until_s = time.monotonic()
        print(f"{phase} ({until_s - since_s:.1f} s)")
        for node_id, node in self._cluster.nodes.items():
            assert isinstance(node, Probed)
            step = node.longest_step(since_s, until_s)
            print(f"    node {node_id} {step.ms:6.1f} ms  {step.name}", flush=True)

    def _create(self) -> None:
        topics = [NewTopic(name, PARTITIONS, COPIES) for name in self._names]
        made = self._admin.create_topics(
            topics, operation_timeout=GIVE_UP_AFTER_S, request_timeout=GIVE_UP_AFTER_S
        )
        for each in made.values():
            each.result(GIVE_UP_AFTER_S)
        self._until_in_sync(COPIES)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "log_level": 2, "acks": "all"})
        for name in self._names:
            for index in range(PARTITIONS):
                producer.produce(name, b"x" * 100, partition=index)
        assert producer.flush(GIVE_UP_AFTER_S) == 0, "not all records were acknowledged"

    def _until_in_sync(self, copies: int) -> None:
        deadline_s = time.monotonic() + GIVE_UP_AFTER_S
        while self._in_sync_counts() != {copies}:
            if time.monotonic() > deadline_s:
                raise TimeoutError(self._cluster.log_tail(20))
            time.sleep(0.5)

    def _in_sync_counts(self) -> set[int]:
        topics = self._admin.list_topics(timeout=60).topics
        if not set(self._names) <= set(topics):
            return set()
        return {len(each.isrs) for name in self._names for each in topics[name].partitions.values()}

    def _controller(self) -> int:
        return self._cluster.leader()

    def _follower(self) -> int:
        return next(node_id for node_id in self._cluster.nodes if node_id != self._controller())


def main(folder: str) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    with LifeCluster(Path(folder), dynamic=True, properties=OFTEN) as cluster:
        cluster.start()
        ClusterLife(cluster).run()
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
