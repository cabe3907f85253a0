"""Appending dead letters to partitions that this broker leads, and to those of another one."""

from __future__ import annotations

from pathlib import Path

from ruslo.broker.share_partitions.dead_letter_topic import DeadLetterTopics
from ruslo.broker.share_partitions.manager import SharePartitionManager
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import CreatedTopic, NewTopic
from ruslo.model.topics import TopicPartition
from tests.support.brokers.live_cluster import live_cluster
from tests.support.brokers.live_node import batch_of, until


async def test_dead_letters_reach_leaders_on_every_broker(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, ("broker,controller", "broker")) as cluster:
        node = cluster.nodes[1]
        config = {"errors.deadletterqueue.group.enable": "true"}
        async with Admin(node.bootstrap) as admin:
            created = await admin.topics.create([NewTopic("dlq.t", 2, 1, config)])
            assert isinstance(created["dlq.t"], CreatedTopic)
            await until(lambda: "dlq.t" in node.metadata.image.topics.by_name)
            leaders = {each.leader for each in node.metadata.image.topics.by_name["dlq.t"].partitions}
            assert leaders == {1, 2}
            topics = _topics(node.broker.share_partitions)
            for source_partition in (0, 1, 2):
                await topics.ready("dlq.t")
                await topics.append("dlq.t", source_partition, batch_of(b"letter"))
            ranges = await admin.offsets.ranges([TopicPartition("dlq.t", 0), TopicPartition("dlq.t", 1)])
            assert [end for _, end in ranges.values()] == [2, 1]


def _topics(shares: SharePartitionManager) -> DeadLetterTopics:
    return shares._copier._topics
