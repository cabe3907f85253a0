"""The group APIs through a whole node: every version, several groups in a request, filters, errors."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ruslo.protocol.messages.join_group_response import JoinGroupResponse
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ruslo.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse
from tests.support.brokers.live_node import LiveNode, live_node, run
from tests.support.clients.raw_client import RawClient, connected
from tests.support.groups.group_requests import (
    commit,
    commit_codes,
    commit_request,
    fetch_offsets,
    find_coordinator,
)

ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
NOT_REQUESTED = -(2**31)
FEW_PARTITIONS = {"offsets.topic.num.partitions": "8"}


@asynccontextmanager
async def ready_node(directory: Path, **properties: str) -> AsyncIterator[tuple[LiveNode, RawClient]]:
    settings = {**FEW_PARTITIONS, **properties}
    async with live_node(directory, settings) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=4)
        assert (await find_coordinator(client, "any")).error_code == 0
        yield node, client


async def join(client: RawClient, group: str, version: int) -> tuple[str, int]:
    """Join and sync as the only member of a classic group; return the member id and the generation."""
    request = JoinGroupRequest(
        group_id=group,
        protocol_type="consumer",
        session_timeout_ms=10_000,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
    )
    if version >= 1:
        request.rebalance_timeout_ms = 10_000
    joined = await client.call(request, JoinGroupResponse, version)
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        request.member_id = joined.member_id
        joined = await client.call(request, JoinGroupResponse, version)
    assert (joined.error_code, joined.leader) == (0, joined.member_id)
    return joined.member_id, joined.generation_id


def consumer_beat(group: str, member: str, epoch: int = 0) -> ConsumerGroupHeartbeatRequest:
    if epoch:
        return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch)
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator(tmp_path: Path, version: int) -> None:
    async with live_node(tmp_path, FEW_PARTITIONS) as node, connected(node.bootstrap) as client:
        found = await find_coordinator(client, "g", version)
        assert (found.error_code, found.node_id) == (0, 1)
        assert f"{found.host}:{found.port}" == node.bootstrap


async def test_find_coordinator_has_a_result_for_each_key(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (_, client):
        request = FindCoordinatorRequest(coordinator_keys=["a", "b", ""])
        response = await client.call(request, FindCoordinatorResponse)
        assert [(each.key, each.error_code) for each in response.coordinators] == [
            ("a", 0),
            ("b", 0),
            ("", 0),
        ]
        not_of_a_share_partition = 2
        for key_type in (not_of_a_share_partition, 9):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            (one,) = (await client.call(request, FindCoordinatorResponse)).coordinators
            assert (one.error_code, one.node_id, one.port) == (ErrorCode.INVALID_REQUEST, -1, -1)
            assert one.error_message


def test_too_few_brokers_for_the_offsets_topic(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        properties = {"offsets.topic.replication.factor": "3"}
        async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
            for _ in range(3):
                found = await find_coordinator(client, "g")
                assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert caplog.text.count("lower offsets.topic.replication.factor (now 3)") == 1


@pytest.mark.parametrize("version", range(10))
async def test_a_classic_member_from_join_to_leave(tmp_path: Path, version: int) -> None:
    """JoinGroup in every version, with versions of the other requests from the same time."""
    async with ready_node(tmp_path) as (_, client):
        member, generation = await join(client, "g", version)
        assignment = [SyncGroupRequestAssignment(member_id=member, assignment=b"all of it")]
        sync = SyncGroupRequest(
            group_id="g", generation_id=generation, member_id=member, assignments=assignment
        )
        sync_version = min(version, 5)
        if sync_version == 5:
            sync.protocol_type, sync.protocol_name = "consumer", "range"
        synced = await client.call(sync, SyncGroupResponse, sync_version)
        assert (synced.error_code, bytes(synced.assignment)) == (0, b"all of it")
        beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
        assert (await client.call(beat, HeartbeatResponse, min(version, 4))).error_code == 0
        request = commit_request("g", {1: 5}, member_id=member, generation=generation)
        commit_version = min(2 + version, 9)
        response = await client.call(request, OffsetCommitResponse, commit_version)
        assert commit_codes(response) == [ErrorCode.NONE]
        leave = LeaveGroupRequest(group_id="g")
        if version < 3:
            leave.member_id = member
        else:
            leave.members = [MemberIdentity(member_id=member)]
        left = await client.call(leave, LeaveGroupResponse, min(version, 5))
        assert left.error_code == 0
        assert await fetch_offsets(client, "g") == {1: 5}


@pytest.mark.parametrize("version", range(1, 10))
async def test_offsets_in_every_version_that_names_topics(tmp_path: Path, version: int) -> None:
    async with ready_node(tmp_path) as (_, client):
        assert await commit(client, "g", {0: 10, 3: 13}) == [ErrorCode.NONE] * 2
        assert await fetch_offsets(client, "g", [0, 1, 3], version) == {0: 10, 1: -1, 3: 13}
        if version >= 2:
            assert await fetch_offsets(client, "g", None, version) == {0: 10, 3: 13}


async def test_offsets_by_topic_id(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (node, client):
        by_id = commit_request("g", {0: 7}, topic="", topic_id=node.topic_id("t"))
        assert commit_codes(await client.call(by_id, OffsetCommitResponse, 10)) == [ErrorCode.NONE]
        unknown = commit_request("g", {0: 7}, topic="", topic_id=b"no topic has me.")
        codes = commit_codes(await client.call(unknown, OffsetCommitResponse, 10))
        assert codes == [ErrorCode.UNKNOWN_TOPIC_ID]
        requested = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        (group,) = (await client.call(requested, OffsetFetchResponse, 10)).groups
        (topic,) = group.topics
        assert topic.topic_id == node.topic_id("t")
        assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 7)]


async def test_many_groups_of_many_shards_in_one_request(tmp_path: Path) -> None:
    names = [f"group-{number}" for number in range(30)]
    async with ready_node(tmp_path) as (node, client):
        assert len({node.node.broker.groups.partition_of(name) for name in names}) > 5
        for number, name in enumerate(names):
            assert await commit(client, name, {0: number}) == [ErrorCode.NONE]
        requested = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        )
        fetched = (await client.call(requested, OffsetFetchResponse, 9)).groups
        assert {group.group_id: group.topics[0].partitions[0].committed_offset for group in fetched} == {
            name: number for number, name in enumerate(names)
        }

        described = await client.call(DescribeGroupsRequest(groups=names), DescribeGroupsResponse)
        assert {each.group_id: each.group_state for each in described.groups} == dict.fromkeys(names, "Empty")
        deleted = await client.call(
            DeleteGroupsRequest(groups_names=[*names, "never-was"]), DeleteGroupsResponse
        )
        codes = {each.group_id: each.error_code for each in deleted.results}
        assert codes == {**dict.fromkeys(names, 0), "never-was": ErrorCode.GROUP_ID_NOT_FOUND}
        assert (await client.call(ListGroupsRequest(), ListGroupsResponse)).groups == []


async def test_lists_are_filtered_by_state_and_type(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (_, client):
        await commit(client, "simple", {0: 1})
        await join(client, "live", 3)
        beat = await client.call(consumer_beat("new", "m"), ConsumerGroupHeartbeatResponse)
        assert (beat.error_code, beat.member_epoch) == (0, 2)

        async def listed(**filters: list[str]) -> set[str]:
            response = await client.call(ListGroupsRequest(**filters), ListGroupsResponse)  # type: ignore[arg-type]
            assert response.error_code == 0
            return {group.group_id for group in response.groups}

        assert await listed() == {"simple", "live", "new"}
        assert await listed(states_filter=["empty"]) == {"simple"}
        assert await listed(states_filter=["CompletingRebalance", "Stable"]) == {"live", "new"}
        assert await listed(types_filter=["Consumer"]) == {"new"}
        assert await listed(types_filter=["classic"], states_filter=["Stable"]) == set()
        assert await listed(types_filter=["nonsense"]) == set()
        for version in range(6):
            all_groups = await client.call(ListGroupsRequest(), ListGroupsResponse, version)
            assert len(all_groups.groups) == 3


@pytest.mark.parametrize("requested", [True, False])
async def test_authorized_operations(tmp_path: Path, requested: bool) -> None:
    expected = ALL_OPERATIONS if requested else NOT_REQUESTED
    async with ready_node(tmp_path) as (_, client):
        await commit(client, "old", {0: 1})
        await client.call(consumer_beat("new", "m"), ConsumerGroupHeartbeatResponse)
        classic = DescribeGroupsRequest(groups=["old"], include_authorized_operations=requested)
        (group,) = (await client.call(classic, DescribeGroupsResponse)).groups
        assert group.authorized_operations == expected
        consumer = ConsumerGroupDescribeRequest(
            group_ids=["new", "old"], include_authorized_operations=requested
        )
        found = (await client.call(consumer, ConsumerGroupDescribeResponse)).groups
        by_id = {each.group_id: each for each in found}
        assert by_id["new"].authorized_operations == expected
        assert by_id["new"].members[0].member_id == "m"
        assert by_id["old"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert by_id["old"].authorized_operations == NOT_REQUESTED


async def test_offsets_can_be_deleted(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (_, client):
        await commit(client, "g", {0: 1, 1: 2})
        topic = OffsetDeleteRequestTopic(
            name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        request = OffsetDeleteRequest(group_id="g", topics=[topic])
        response = await client.call(request, OffsetDeleteResponse)
        assert (response.error_code, response.topics[0].partitions[0].error_code) == (0, 0)
        assert await fetch_offsets(client, "g") == {1: 2}


async def test_pattern_is_resolved_by_the_broker(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (node, client):
        invalid = consumer_beat("g", "m")
        invalid.subscribed_topic_names, invalid.subscribed_topic_regex = None, "(unclosed"
        rejected = await client.call(invalid, ConsumerGroupHeartbeatResponse)
        assert rejected.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert rejected.error_message

        valid = consumer_beat("g", "m")
        valid.subscribed_topic_names, valid.subscribed_topic_regex = None, "[s-u]"
        beat = await client.call(valid, ConsumerGroupHeartbeatResponse)
        assert beat.error_code == 0
        while beat.assignment is None or not beat.assignment.topic_partitions:
            again = consumer_beat("g", "m", beat.member_epoch)
            beat = await client.call(again, ConsumerGroupHeartbeatResponse)
            assert beat.error_code == 0
        (given,) = beat.assignment.topic_partitions
        assert (given.topic_id, sorted(given.partitions)) == (node.topic_id("t"), [0, 1, 2, 3])


async def test_disabled_protocol_is_rejected_by_any_broker(tmp_path: Path) -> None:
    """Even by a broker that does not coordinate the group: without ``__consumer_offsets`` no broker does."""
    properties = {"group.coordinator.rebalance.protocols": "classic"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        beat = await client.call(consumer_beat("g", "m"), ConsumerGroupHeartbeatResponse)
        assert (beat.error_code, beat.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
        request = ConsumerGroupDescribeRequest(group_ids=["g", "h"])
        described = (await client.call(request, ConsumerGroupDescribeResponse)).groups
        assert [(each.group_id, each.error_code) for each in described] == [
            ("g", ErrorCode.UNSUPPORTED_VERSION),
            ("h", ErrorCode.UNSUPPORTED_VERSION),
        ]
