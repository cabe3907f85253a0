"""Share groups through a whole node: heartbeats, descriptions, offsets, deletion, and the feature level."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ruslo.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from ruslo.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
)
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ruslo.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.share_group_heartbeat_response import (
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ruslo.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ruslo.protocol.messages.update_features_response import UpdateFeaturesResponse
from tests.support.brokers.live_node import LiveNode, batch_of, live_node
from tests.support.clients.raw_client import RawClient, connected
from tests.support.groups.group_requests import find_coordinator
from tests.support.groups.share_requests import alter_request, delete_request
from tests.support.share.share_client import SMALL

SETTINGS = {**SMALL, "offsets.topic.num.partitions": "4", "group.share.assignment.interval.ms": "0"}


@asynccontextmanager
async def ready_node(directory: Path) -> AsyncIterator[tuple[LiveNode, RawClient]]:
    async with live_node(directory, SETTINGS) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=3)
        assert (await find_coordinator(client, "g")).error_code == 0
        yield node, client


async def beat(client: RawClient, epoch: int = 0, *topics: str) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=list(topics) or None
    )
    return await client.call(request, ShareGroupHeartbeatResponse)


async def joined(client: RawClient) -> ShareGroupHeartbeatResponse:
    """Join, and send heartbeats until the member has its three partitions."""
    response = await beat(client, 0, "t")
    while not any(topic.partitions for topic in _topics(response)):
        assert response.error_code == ErrorCode.NONE
        response = await beat(client, response.member_epoch, "t")
    return response


def _topics(response: ShareGroupHeartbeatResponse) -> list[TopicPartitions]:
    return [] if response.assignment is None else list(response.assignment.topic_partitions)


async def offsets(
    client: RawClient, topics: dict[str, list[int]] | None = None, version: int = 1
) -> dict[str, list[DescribeShareGroupOffsetsResponsePartition]]:
    listed = None
    if topics is not None:
        listed = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=listed)]
    )
    (group,) = (await client.call(request, DescribeShareGroupOffsetsResponse, version)).groups
    assert group.error_code == ErrorCode.NONE
    return {topic.topic_name: topic.partitions for topic in group.topics}


async def alter(client: RawClient, offset: int, *partitions: int) -> dict[int, ErrorCode]:
    request = alter_request({"t": dict.fromkeys(partitions, offset)})
    response = await client.call(request, AlterShareGroupOffsetsResponse)
    assert response.error_code == ErrorCode.NONE
    (topic,) = response.responses
    return {each.partition_index: ErrorCode(each.error_code) for each in topic.partitions}


async def test_a_member_joins_and_gets_partitions(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (_, client):
        response = await joined(client)
        request = ShareGroupDescribeRequest(group_ids=["g", "x"], include_authorized_operations=True)
        described, absent = (await client.call(request, ShareGroupDescribeResponse)).groups
        (member,) = described.members
        (topic,) = member.assignment.topic_partitions
        assert (described.group_state, described.assignor_name) == ("Stable", "simple")
        assert described.group_epoch == member.member_epoch == response.member_epoch
        assert (topic.topic_name, topic.partitions) == ("t", [0, 1, 2])
        assert described.authorized_operations > 0
        assert absent.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_the_lag_counts_from_the_start_offset(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (node, client):
        await node.produce(client, batch_of(b"1", b"2", b"3"))
        assert await alter(client, 1, 0, 7) == {
            0: ErrorCode.NONE,
            7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        (known,) = (await offsets(client))["t"]
        assert (known.partition_index, known.start_offset, known.lag) == (0, 1, 2)
        named = await offsets(client, {"t": [0, 1, 99], "absent": [5]})
        assert [(each.start_offset, each.lag) for each in named["t"]] == [(1, 2), (-1, -1), (-1, -1)]
        assert [(each.partition_index, each.start_offset) for each in named["absent"]] == [(5, -1)]
        assert [each.lag for each in (await offsets(client, version=0))["t"]] == [-1]


async def test_partitions_without_a_start_offset_have_no_lag(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (_, client):
        await joined(client)
        found = await offsets(client)
        assert [(each.partition_index, each.start_offset, each.lag) for each in found["t"]] == [
            (0, -1, -1),
            (1, -1, -1),
            (2, -1, -1),
        ]


async def test_offsets_of_topics_and_whole_groups_are_deleted(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (node, client):
        await node.create("u")
        await alter(client, 0, 0, 1)
        request = delete_request("t", "u")
        response = await client.call(request, DeleteShareGroupOffsetsResponse)
        results = {each.topic_name: each for each in response.responses}
        assert (results["t"].error_code, results["t"].topic_id != ZERO_UUID) == (ErrorCode.NONE, True)
        assert results["u"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await offsets(client) == {}
        await alter(client, 5, 2)
        gone = await client.call(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
        assert [each.error_code for each in gone.results] == [ErrorCode.NONE]
        assert [each.start_offset for each in (await offsets(client, {"t": [2]}))["t"]] == [-1]
        again = await client.call(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
        assert [each.error_code for each in again.results] == [ErrorCode.GROUP_ID_NOT_FOUND]


async def test_a_cluster_without_the_feature_has_no_share_groups(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (_, client):
        downgrade = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)]
        )
        assert (await client.call(downgrade, UpdateFeaturesResponse)).error_code == ErrorCode.NONE
        assert (await beat(client, 0, "t")).error_code == ErrorCode.UNSUPPORTED_VERSION
        describe = ShareGroupDescribeRequest(group_ids=["g"])
        (described,) = (await client.call(describe, ShareGroupDescribeResponse)).groups
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)]
        )
        (listed,) = (await client.call(request, DescribeShareGroupOffsetsResponse)).groups
        assert described.error_code == listed.error_code == ErrorCode.UNSUPPORTED_VERSION
        altered = await client.call(alter_request({}), AlterShareGroupOffsetsResponse)
        deleted = await client.call(delete_request(), DeleteShareGroupOffsetsResponse)
        assert altered.error_code == deleted.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_states_survive_a_restart(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (_, client):
        await alter(client, 4, 0)
    async with live_node(tmp_path, SETTINGS) as node, connected(node.bootstrap) as client:
        while (await beat(client, 5)).error_code != ErrorCode.UNKNOWN_MEMBER_ID:
            continue
        assert [each.start_offset for each in (await offsets(client))["t"]] == [4]
