"""Damage in a replica is reported, not served, and repaired from another replica."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.storage.log import Log
from ruslo.storage.lost_data import LossKind
from ruslo.storage.segment import Segment
from tests.support.brokers.live_cluster import LiveCluster, live_cluster
from tests.support.brokers.live_node import LiveNode, batch_of, live_node, until
from tests.support.clients.raw_client import connected
from tests.unit.storage.workbench import records_from

COMBINED = ("broker,controller",) * 3
FAST = {"ruslo.scrub.bytes.per.second": "1000000000"}
PARTITION = TopicPartition("t", 0)


async def filled_cluster(cluster: LiveCluster) -> dict[int, Log]:
    """Create a topic with three replicas and several segments; return the log of each node."""
    async with Admin(cluster.nodes[1].bootstrap) as admin:
        topic = NewTopic("t", 1, 3, configs={"segment.bytes": "1048576", "min.insync.replicas": "3"})
        created = (await admin.topics.create([topic]))["t"]
        assert not isinstance(created, KafkaError), created
    await until(lambda: all(PARTITION in node.logs.logs for node in cluster.nodes.values()))
    (leader,) = [LiveNode(node) for node in cluster.nodes.values() if LiveNode(node).partition().is_leader]
    async with connected(leader.bootstrap) as client:
        for number in range(40):
            result = await leader.produce(client, batch_of(b"%02d" % number * 30_000), acks=-1)
            assert result.error_code == 0
    logs = {node_id: node.logs.logs[PARTITION] for node_id, node in cluster.nodes.items()}
    await until(lambda: all(log.high_watermark == 40 for log in logs.values()))
    assert all(len(log.segments) > 2 for log in logs.values())
    return logs


Damage = Callable[[bytearray], None]


def zero(data: bytearray) -> None:
    data[:] = bytes(len(data))


def flip(data: bytearray) -> None:
    data[len(data) // 2] ^= 4


def empty(data: bytearray) -> None:
    del data[:]


def flip_last(data: bytearray) -> None:
    data[-1] ^= 1


def change(segment: Segment, damage: Damage) -> None:
    """Damage the file in place: a broker keeps the file of an active segment open."""
    path = Path(segment.path_of(".log"))
    data = bytearray(path.read_bytes())
    damage(data)
    with path.open("r+b") as file:
        file.truncate(len(data))
        file.write(data)


async def test_damage_is_repaired_from_another_replica(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, COMBINED, properties=FAST) as cluster:
        logs = await filled_cluster(cluster)
        expected = records_from(logs[1])
        # An active segment is closed to be repaired.
        cases = [(zero, 0), (flip, 0), (empty, 0), (flip, -1), (zero, -2)]
        for node_id, log in logs.items():
            node = cluster.nodes[node_id]
            for number, (damage, at) in enumerate(cases, 1):
                change(log.segments[at], damage)
                log.forget_recent_batches()
                await node.broker.scrubber.check(log)
                assert node.broker.scrubber.repaired_segments == number
                assert not log.damage
                assert not list(node.logs.lost_data)
                assert records_from(log) == expected


async def test_a_sole_replica_reports_its_damage(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        for number in range(3):
            assert (await node.produce(client, batch_of(b"%d" % number))).error_code == 0
        log = node.partition("t", 0).log
        change(log.active, flip_last)
        scrubber = node.node.broker.scrubber
        await scrubber.check_all()
        (lost,) = node.node.logs.lost_data
        assert (lost.partition, lost.kind) == (PARTITION, LossKind.RECORDS)
        assert (lost.first_offset, lost.end_offset) == (2, 3)
        assert scrubber.damaged_ranges == 1
        assert (await node.fetch(client, offset=2)).error_code == ErrorCode.CORRUPT_MESSAGE
        assert (await node.fetch(client, offset=0)).error_code == ErrorCode.NONE
