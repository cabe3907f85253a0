"""One of three nodes, the last leader, loses files while all are down: no acked record is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.model.topics import TopicPartition
from ruslo.storage.checkpoints import parse_offsets
from tests.support.brokers.quorum import QuorumCluster, QuorumNode
from tests.support.clients.librdkafka import Sent, produce_all, read_records

RECORDS = 300
SEGMENT_BYTES = "1048576"


def empty_topic_id(directory: Path) -> None:
    """The records prove the topic id, so this replica may lead."""
    (directory / "partition.metadata").write_bytes(b"")


def remove_topic_id_and_records(directory: Path) -> None:
    (directory / "partition.metadata").unlink()
    for segment in directory.glob("*.log"):
        segment.write_bytes(b"")


def remove_directory(directory: Path) -> None:
    shutil.rmtree(directory)


def remove_last_segment(directory: Path) -> None:
    max(directory.glob("*.log")).unlink()


DAMAGE: dict[str, Callable[[Path], None]] = {
    damage.__name__: damage
    for damage in (empty_topic_id, remove_topic_id_and_records, remove_directory, remove_last_segment)
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[QuorumCluster]:
    properties = {
        "min.insync.replicas": "2",
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "300",
        "replica.high.watermark.checkpoint.interval.ms": "100",
    }
    with QuorumCluster(tmp_path, properties=properties) as cluster:
        yield cluster.start()


def checkpointed(node: QuorumNode, name: str) -> int:
    path = node.data_dirs[0] / "replication-offset-checkpoint"
    data = path.read_bytes() if path.exists() else b"0\n0\n"
    return parse_offsets(data, str(path)).get(TopicPartition(name, 0), 0)


def test_acked_records_survive_a_damaged_last_leader(cluster: QuorumCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    topics = [NewTopic(name, 1, 3, config={"segment.bytes": SEGMENT_BYTES}) for name in DAMAGE]
    for created in admin.create_topics(topics, operation_timeout=30).values():
        created.result(30)
    values = [f"record {number}".encode() for number in range(RECORDS)]
    for name in DAMAGE:
        produce_all(cluster.bootstrap, name, [Sent(value) for value in values], {"acks": "all"})
    damaged = cluster.nodes[3]
    cluster.until(lambda: all(checkpointed(damaged, name) == RECORDS for name in DAMAGE) or None)
    for node in cluster.nodes.values():
        node.kill()
    for name, damage in DAMAGE.items():
        damage(damaged.data_dirs[0] / f"{name}-0")

    # The other nodes stop first, so the damaged node is the last leader that the controller knows.
    cluster.start([cluster.nodes[1], cluster.nodes[2]])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def leaders() -> set[int]:
        known = admin.list_topics(timeout=60).topics
        return {known[name].partitions[0].leader for name in DAMAGE}

    cluster.until(lambda: leaders() == {-1} or None)
    cluster.start([damaged])

    def in_sync() -> bool | None:
        known = admin.list_topics(timeout=60).topics
        return all(len(known[name].partitions[0].isrs) == 3 for name in DAMAGE) or None

    cluster.until(in_sync)
    for name in DAMAGE:
        read = read_records(cluster.bootstrap, name, 1, RECORDS)
        assert [message.value() for message in read] == values
        (delivered,) = produce_all(cluster.bootstrap, name, [Sent(b"next")], {"acks": "all"})
        assert delivered.offset() == RECORDS
