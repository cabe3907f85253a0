"""Three nodes under load while their processes die, stop, stand still and come back: acked = read."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.quorum import QuorumCluster
from tests.support.replicas import wait_until_in_sync
from tests.support.steady_producer import SteadyProducer

PARTITIONS = 6
RECORDS = int(os.environ.get("RUSLO_FAILOVER_RECORDS", "500"))
"""Acknowledged after each fault before the next one comes."""
THREE_COPIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[QuorumCluster]:
    with QuorumCluster(tmp_path, properties=THREE_COPIES).start() as cluster:
        yield cluster


def new_topic(cluster: QuorumCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(name, num_partitions=PARTITIONS, replication_factor=3)
    admin.create_topics([topic], operation_timeout=30)[name].result(30)


def report(what: str, producer: SteadyProducer) -> None:
    print(f"{what}: longest stall {producer.longest_stall_s():.2f} s, {producer.count()} records acked")
    producer.forget_stalls()


def test_kill_9_of_every_node_in_turn(cluster: QuorumCluster) -> None:
    new_topic(cluster, "t")
    everybody = cluster.bootstrap
    with SteadyProducer(everybody, "t", PARTITIONS) as producer:
        producer.wait_for_more(RECORDS)
        for node_id, node in cluster.nodes.items():
            node.kill()
            producer.wait_for_more(RECORDS)
            report(f"kill -9 of node {node_id}", producer)
            cluster.start([node])
            wait_until_in_sync(cluster.bootstrap, "t")
    producer.check(everybody)


def test_a_rolling_restart(cluster: QuorumCluster) -> None:
    new_topic(cluster, "t")
    everybody = cluster.bootstrap
    with SteadyProducer(everybody, "t", PARTITIONS) as producer:
        producer.wait_for_more(RECORDS)
        for node_id, node in cluster.nodes.items():
            node.stop()
            producer.wait_for_more(RECORDS)
            cluster.start([node])
            wait_until_in_sync(cluster.bootstrap, "t")
            report(f"restart of node {node_id}", producer)
    producer.check(everybody)


def test_kill_9_of_all_at_once(cluster: QuorumCluster) -> None:
    """Only the processes died: what they had written is in the page cache, and nothing acked is lost."""
    new_topic(cluster, "t")
    everybody = cluster.bootstrap
    with SteadyProducer(everybody, "t", PARTITIONS) as producer:
        producer.wait_for_more(RECORDS)
        for node in cluster.nodes.values():
            node.kill()
        cluster.start()
        producer.wait_for_more(RECORDS)
        report("kill -9 of all", producer)
    producer.check(everybody)


def test_a_leader_that_stands_still(cluster: QuorumCluster) -> None:
    """SIGSTOP for longer than its session: another one leads, and the sleeper does no harm when it wakes."""
    new_topic(cluster, "t")
    everybody = cluster.bootstrap
    with SteadyProducer(everybody, "t", PARTITIONS) as producer:
        producer.wait_for_more(RECORDS)
        sleeper = cluster.nodes[cluster.leader()]
        assert sleeper.process is not None
        os.kill(sleeper.process.pid, signal.SIGSTOP)
        time.sleep(12)
        os.kill(sleeper.process.pid, signal.SIGCONT)
        wait_until_in_sync(cluster.bootstrap, "t")
        producer.wait_for_more(RECORDS)
        report("SIGSTOP of 12 s", producer)
    producer.check(everybody)
