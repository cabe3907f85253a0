"""A follower that waits for its replication quota continues when the throttle is raised or removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.broker.partitions.fetcher import _FollowedPartition
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ruslo.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from ruslo.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from tests.support.brokers.live_cluster import LiveCluster, live_cluster
from tests.support.brokers.live_node import LiveNode, batch_of, until
from tests.support.clients.raw_client import RawClient, connected

ROLES = ("broker,controller", "broker")
LEADER, FOLLOWER = 1, 2


async def topic_on_the_leader(client: RawClient) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[LEADER])
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment])
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    (created,) = (await client.call(request, CreateTopicsResponse)).topics
    assert created.error_code == 0


async def add_the_follower(client: RawClient) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=[LEADER, FOLLOWER])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[partition])], timeout_ms=5000
    )
    response = await client.call(request, AlterPartitionReassignmentsResponse)
    assert response.responses[0].partitions[0].error_code == 0


def followed(cluster: LiveCluster, topic_id: Uuid) -> _FollowedPartition | None:
    fetcher = cluster.nodes[FOLLOWER].broker.partitions._fetchers._by_leader.get(LEADER)
    return None if fetcher is None else fetcher._followed.get((topic_id, 0))


@pytest.mark.parametrize(
    "change",
    [
        {"follower_replication_throttled_rate": "1000000000"},
        {"follower_replication_throttled_replicas": "0:9"},
    ],
    ids=["rate", "replicas"],
)
async def test_the_follower_continues_without_the_throttle(tmp_path: Path, change: dict[str, str]) -> None:
    # A response has one batch, so the follower lags after the first.
    properties = {"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}
    async with (
        live_cluster(tmp_path, ROLES, properties=properties) as cluster,
        connected(cluster.nodes[LEADER].bootstrap) as client,
    ):
        node = LiveNode(cluster.nodes[LEADER])
        await topic_on_the_leader(client)
        for _ in range(3):
            await node.produce(client, batch_of(bytes(1000)))
        await node.alter_all_brokers(follower_replication_throttled_rate="1")
        await node.alter("t", follower_replication_throttled_replicas="*")
        await add_the_follower(client)
        topic_id = node.topic_id("t")
        await until(lambda: (each := followed(cluster, topic_id)) is not None and each.waits_for_quota)
        log = cluster.nodes[FOLLOWER].broker.partitions.get("t", 0).log
        assert log.end_offset == 1
        if "follower_replication_throttled_rate" in change:
            await node.alter_all_brokers(**change)
        else:
            await node.alter("t", **change)
        await until(lambda: log.end_offset == 3)
        await until(lambda: set(node.node.metadata.image.topics.by_id[topic_id].partitions[0].isr) == {1, 2})
