"""ApiVersions, DescribeCluster, DescribeQuorum, DescribeTopicPartitions, UpdateFeatures, InitProducerId."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ruslo.broker.handlers import (
    create_topics,
    describe_cluster,
    describe_quorum,
    describe_topic_partitions,
    update_features,
)
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ruslo.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ruslo.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ruslo.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.brokers.handlers import exchange
from tests.support.machines.controller_bench import CLUSTER_ID, AdminNode, admin_node, numbered_uuid


async def create(node: AdminNode, **partitions: int) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in partitions.items()
    ]
    await exchange(create_topics.handle, node, CreateTopicsRequest(topics=topics))


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster(version: int) -> None:
    async with admin_node() as node:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await exchange(describe_cluster.handle, node, request, version)
        assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
        assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [
            (1, "localhost", 9092)
        ]
        assert response.cluster_authorized_operations > 0
        if version >= 1:
            controllers = DescribeClusterRequest(endpoint_type=2)
            rejected = await exchange(describe_cluster.handle, node, controllers, version)
            assert ErrorCode(rejected.error_code) is ErrorCode.MISMATCHED_ENDPOINT_TYPE
            response = await exchange(describe_cluster.handle, node, controllers, version, "CONTROLLER")
            assert [(each.broker_id, each.port) for each in response.brokers] == [(1, 9093)]
            unknown = DescribeClusterRequest(endpoint_type=3)
            rejected = await exchange(describe_cluster.handle, node, unknown, version)
            assert ErrorCode(rejected.error_code) is ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


async def test_fenced_brokers_are_listed_on_request() -> None:
    async with admin_node() as node:
        await node.lifecycle.shut_down()
        assert (await exchange(describe_cluster.handle, node, DescribeClusterRequest())).brokers == []
        request = DescribeClusterRequest(include_fenced_brokers=True)
        (broker,) = (await exchange(describe_cluster.handle, node, request)).brokers
        assert broker.is_fenced


@pytest.mark.parametrize("version", range(3))
async def test_describe_quorum(version: int) -> None:
    async with admin_node() as node:

        def quorum_request(name: str, index: int) -> DescribeQuorumRequest:
            partition = PartitionData(partition_index=index)
            return DescribeQuorumRequest(topics=[TopicData(topic_name=name, partitions=[partition])])

        metadata = quorum_request("__cluster_metadata", 0)
        response = await exchange(describe_quorum.handle, node, metadata, version)
        partition = response.topics[0].partitions[0]
        assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
        assert partition.high_watermark == node.raft.end_offset
        (voter,) = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (1, node.raft.end_offset)
        if version >= 2:
            assert (response.error_message, partition.error_message) == ("", "")
            assert voter.replica_directory_id == numbered_uuid(1)
            assert [(each.node_id, each.listeners[0].port) for each in response.nodes] == [(1, 9093)]
        for other in (quorum_request("__cluster_metadata", 1), quorum_request("t", 0)):
            rejected = await exchange(describe_quorum.handle, node, other, version)
            code = rejected.topics[0].partitions[0].error_code
            assert ErrorCode(code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node.raft.resign()
        rejected = await exchange(describe_quorum.handle, node, metadata, version)
        assert ErrorCode(rejected.topics[0].partitions[0].error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_describe_topic_partitions_in_pages() -> None:
    async with admin_node() as node:
        await create(node, a=3, c=2, b=1)
        seen: list[list[tuple[str | None, int]]] = []
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
            response = await exchange(describe_topic_partitions.handle, node, request)
            seen.append(
                [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]
            )
            if response.next_cursor is None:
                break
            at = response.next_cursor
            cursor = Cursor(topic_name=at.topic_name, partition_index=at.partition_index)
        assert seen == [[("a", 0), ("a", 1)], [("a", 2), ("b", 0)], [("c", 0), ("c", 1)]]


async def test_describe_topic_partitions_by_name() -> None:
    async with admin_node() as node:
        await create(node, t=1)
        names = [TopicRequest(name=name) for name in ("t", "x", "a/b")]
        response = await exchange(
            describe_topic_partitions.handle, node, DescribeTopicPartitionsRequest(topics=names)
        )
        assert {topic.name: ErrorCode(topic.error_code) for topic in response.topics} == {
            "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "t": ErrorCode.NONE,
            "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        await node.lifecycle.shut_down()
        response = await exchange(describe_topic_partitions.handle, node, DescribeTopicPartitionsRequest())
        (partition,) = response.topics[0].partitions
        assert (partition.leader_id, partition.isr_nodes) == (-1, [])
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([1], [1])
        for impossible in (
            Cursor(topic_name="t", partition_index=-1),
            Cursor(topic_name="not requested", partition_index=0),
        ):
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")], cursor=impossible)
            response = await exchange(describe_topic_partitions.handle, node, request)
            assert [(topic.name, ErrorCode(topic.error_code)) for topic in response.topics] == [
                ("t", ErrorCode.INVALID_REQUEST)
            ]


@pytest.mark.parametrize("version", range(3))
async def test_update_features(version: int) -> None:
    async with admin_node() as node:

        def downgrade_request(feature: str) -> UpdateFeaturesRequest:
            update = FeatureUpdateKey(feature=feature, max_version_level=1)
            if version == 0:
                update.allow_downgrade = True
            else:
                update.upgrade_type = 2
            return UpdateFeaturesRequest(feature_updates=[update])

        response = await exchange(
            update_features.handle, node, downgrade_request("transaction.version"), version
        )
        assert response.error_code == 0
        assert [each.feature for each in response.results] == (["transaction.version"] if version < 2 else [])
        assert node.image.features.level("transaction.version") == 1
        rejected = await exchange(update_features.handle, node, downgrade_request("moon.phase"), version)
        assert ErrorCode(rejected.error_code) is ErrorCode.INVALID_UPDATE_VERSION
        assert rejected.error_message


async def test_a_voter_that_never_registered_may_not_support_a_feature() -> None:
    async with admin_node() as node:
        state = node.machine.state
        state.settings = replace(state.settings, voter_ids=frozenset((node.node_id, 7)))
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
        request = UpdateFeaturesRequest(feature_updates=[update])
        rejected = await exchange(update_features.handle, node, request, 2)
        assert ErrorCode(rejected.error_code) is ErrorCode.INVALID_UPDATE_VERSION
        assert "controller 7 has not registered" in (rejected.error_message or "")
        state.settings = replace(state.settings, voter_ids=frozenset((node.node_id,)))
        assert (await exchange(update_features.handle, node, request, 2)).error_code == 0
