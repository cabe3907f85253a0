"""End offsets of partitions whose leaders are on this broker and on another one."""

from __future__ import annotations

from pathlib import Path

from ruslo.broker.partitions.end_offsets import EndOffsets
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.librdkafka.async_producer import AsyncProducer
from ruslo.model.topics import TopicPartition
from tests.support.brokers.live_cluster import live_cluster

PARTITIONS = 4


async def test_leaders_on_all_brokers_report_their_ends(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, ("broker,controller", "broker")) as cluster:
        bootstrap = cluster.nodes[1].bootstrap
        async with Admin(bootstrap) as admin:
            await admin.topics.create([NewTopic("t", PARTITIONS, 1)])
        async with AsyncProducer({"bootstrap.servers": bootstrap}) as producer:
            for partition in range(PARTITIONS):
                for _ in range(partition):
                    await producer.send("t", b"x", partition=partition)
        wanted = {TopicPartition("t", partition): partition for partition in range(PARTITIONS)}
        asked = [*wanted, TopicPartition("t", 9), TopicPartition("absent", 0)]
        for node in cluster.nodes.values():
            broker = node.broker
            ends = EndOffsets(broker.partitions, node.metadata, broker._links(), 30)
            led = [each for each in broker.partitions.by_name["t"].values() if each.is_leader]
            assert 0 < len(led) < PARTITIONS
            assert await ends.of(asked) == wanted
