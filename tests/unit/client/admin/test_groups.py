from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.group_descriptions import GroupDescription
from ruslo.client.admin.groups import GroupListing
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages import consumer_group_describe_response as consumer
from ruslo.protocol.messages import describe_groups_response as classic
from ruslo.protocol.messages import list_groups_response as listing
from ruslo.protocol.messages import offset_commit_response as commit
from ruslo.protocol.messages import offset_delete_response as forget
from ruslo.protocol.messages import offset_fetch_response as fetch
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.offset_commit_request import OffsetCommitRequest
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest
from tests.support.brokers.scripted_broker import (
    ReceivedRequest,
    ScriptedBroker,
    ScriptedResponse,
    all_versions,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class GroupScript:
    """A coordinator of every group. Functions by request type handle other requests."""

    def __init__(self, limits: dict[int, tuple[int, int]] | None = None) -> None:
        self.limits = limits
        self.responses: dict[type[Message], Callable[[ReceivedRequest], ScriptedResponse]] = {}

    def __call__(self, received: ReceivedRequest) -> ScriptedResponse:
        if received.api_key == ApiVersionsRequest.API_KEY:
            return all_versions(self.limits)
        if isinstance(received.message, FindCoordinatorRequest):
            keys = received.message.coordinator_keys
            return FindCoordinatorResponse(coordinators=[Coordinator(key=key, node_id=1) for key in keys])
        return self.responses[type(received.message)](received)


def run_with(script: GroupScript, action: Callable[[Admin, ScriptedBroker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with ScriptedBroker(script) as broker, Admin(f"127.0.0.1:{broker.port}") as admin:
            await action(admin, broker)

    asyncio.run(run())


def code_of(response: object) -> ErrorCode:
    assert isinstance(response, KafkaError)
    return response.code


async def test_groups_of_all_brokers_are_listed_once() -> None:
    def of(*names: str) -> GroupScript:
        script = GroupScript()
        groups = [
            listing.ListedGroup(group_id=name, group_type="Classic", group_state="Empty") for name in names
        ]
        script.responses[ListGroupsRequest] = lambda received: listing.ListGroupsResponse(groups=groups)
        return script

    async with ScriptedBroker(of("b", "moving")) as one, ScriptedBroker(of("moving", "a")) as two:
        one.nodes = two.nodes = {1: one.port, 2: two.port}
        async with Admin(f"127.0.0.1:{one.port}") as admin:
            found = await admin.groups.list(states=["Empty"], types=["classic"])
        (received,) = two.requests_of(ListGroupsRequest.API_KEY)
    assert [group.group_id for group in found] == ["a", "b", "moving"]
    assert found[0] == GroupListing("a", "classic", "Empty", "", 2)
    assert isinstance(received.message, ListGroupsRequest)
    assert (received.message.states_filter, received.message.types_filter) == (["Empty"], ["classic"])


def test_unsupported_filters_are_an_error() -> None:
    script = GroupScript({ListGroupsRequest.API_KEY: (0, 4)})
    script.responses[ListGroupsRequest] = lambda received: listing.ListGroupsResponse()

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert await admin.groups.list(states=["Stable"]) == []
        with pytest.raises(KafkaError) as caught:
            await admin.groups.list(types=["consumer"])
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION

    run_with(script, action)


def test_describe_tries_consumer_groups_then_classic_groups() -> None:
    def as_consumer(received: ReceivedRequest) -> ScriptedResponse:
        assert isinstance(received.message, ConsumerGroupDescribeRequest)
        return consumer.ConsumerGroupDescribeResponse(
            groups=[
                consumer.DescribedGroup(group_id=name, group_state="Stable")
                if name == "new"
                else consumer.DescribedGroup(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
                for name in received.message.group_ids
            ]
        )

    def as_classic(received: ReceivedRequest) -> ScriptedResponse:
        assert isinstance(received.message, DescribeGroupsRequest)
        assert received.message.groups == ["old", "absent", "hidden"]
        return classic.DescribeGroupsResponse(
            groups=[
                classic.DescribedGroup(group_id="old", group_state="Empty"),
                classic.DescribedGroup(
                    group_id="absent", group_state="Dead", error_code=ErrorCode.GROUP_ID_NOT_FOUND
                ),
                classic.DescribedGroup(group_id="hidden", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ]
        )

    script = GroupScript()
    script.responses = {ConsumerGroupDescribeRequest: as_consumer, DescribeGroupsRequest: as_classic}
    known: list[int] = []

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        found = await admin.groups.describe(["new", "old", "absent", "hidden", "new"], known.append)
        new, old = found["new"], found["old"]
        assert isinstance(new, GroupDescription)
        assert isinstance(old, GroupDescription)
        assert (new.type, old.type, old.is_active) == ("consumer", "classic", False)
        assert code_of(found["absent"]) == ErrorCode.GROUP_ID_NOT_FOUND
        assert "does not exist" in str(found["absent"])
        assert code_of(found["hidden"]) == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert sum(known) == 2

    run_with(script, action)


def test_brokers_without_consumer_groups_describe_classic_groups() -> None:
    limits = {ConsumerGroupDescribeRequest.API_KEY: (0, -1), DescribeGroupsRequest.API_KEY: (0, 5)}
    script = GroupScript(limits)
    script.responses[DescribeGroupsRequest] = lambda received: classic.DescribeGroupsResponse(
        groups=[
            classic.DescribedGroup(group_id="old", group_state="Stable"),
            classic.DescribedGroup(group_id="absent", group_state="Dead"),
        ]
    )

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        found = await admin.groups.describe(["old", "absent"])
        assert isinstance(found["old"], GroupDescription)
        assert code_of(found["absent"]) == ErrorCode.GROUP_ID_NOT_FOUND

    run_with(script, action)


def test_delete_returns_the_outcome_by_group() -> None:
    script = GroupScript()
    codes = {"gone": 0, "busy": ErrorCode.NON_EMPTY_GROUP, "absent": ErrorCode.GROUP_ID_NOT_FOUND}
    script.responses[DeleteGroupsRequest] = lambda received: DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=code) for name, code in codes.items()]
    )

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        found = await admin.groups.delete(list(codes))
        assert found["gone"] is None
        assert "group 'busy' has members" in str(found["busy"])
        assert "group 'absent' does not exist" in str(found["absent"])

    run_with(script, action)


def test_offsets_of_many_groups_are_fetched_with_topic_names() -> None:
    def respond(received: ReceivedRequest) -> ScriptedResponse:
        assert isinstance(received.message, OffsetFetchRequest)
        assert received.version == 9
        assert [(group.group_id, group.topics) for group in received.message.groups] == [
            ("g", None),
            ("x", None),
        ]
        assert not received.message.require_stable
        partitions = [
            fetch.OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
            fetch.OffsetFetchResponsePartitions(
                partition_index=0, committed_offset=5, committed_leader_epoch=2, metadata="note"
            ),
        ]
        return fetch.OffsetFetchResponse(
            groups=[
                fetch.OffsetFetchResponseGroup(
                    group_id="g", topics=[fetch.OffsetFetchResponseTopics(name="t", partitions=partitions)]
                ),
                fetch.OffsetFetchResponseGroup(group_id="x", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ]
        )

    script = GroupScript()
    script.responses[OffsetFetchRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        found = await admin.group_offsets.fetch_many(["g", "x"])
        assert found["g"] == {T0: (5, 2, "note")}
        assert code_of(found["x"]) == ErrorCode.GROUP_AUTHORIZATION_FAILED

    run_with(script, action)


def test_old_brokers_return_offsets_group_by_group() -> None:
    def respond(received: ReceivedRequest) -> ScriptedResponse:
        assert isinstance(received.message, OffsetFetchRequest)
        assert received.message.topics is None
        partition = fetch.OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata=None)
        topics = [fetch.OffsetFetchResponseTopic(name="t", partitions=[partition])]
        return fetch.OffsetFetchResponse(topics=topics if received.message.group_id == "g" else [])

    script = GroupScript({OffsetFetchRequest.API_KEY: (1, 7)})
    script.responses[OffsetFetchRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert await admin.group_offsets.fetch_many(["g", "h"]) == {"g": {T0: (5, -1, "")}, "h": {}}

    run_with(script, action)


def test_altering_offsets_is_retried_while_the_coordinator_loads() -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]

    def respond(received: ReceivedRequest) -> ScriptedResponse:
        assert isinstance(received.message, OffsetCommitRequest)
        assert (received.message.generation_id_or_member_epoch, received.message.member_id) == (-1, "")
        assert received.message.topics[0].name == "t"
        code = codes.pop(0)
        return commit.OffsetCommitResponse(
            topics=[
                commit.OffsetCommitResponseTopic(
                    name="t",
                    partitions=[
                        commit.OffsetCommitResponsePartition(partition_index=0, error_code=code),
                        commit.OffsetCommitResponsePartition(
                            partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    ],
                )
            ]
        )

    script = GroupScript()
    script.responses[OffsetCommitRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        outcomes = await admin.group_offsets.alter("g", {T0: 5, T1: 6})
        assert outcomes[T0] is None
        assert code_of(outcomes[T1]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == []

    run_with(script, action)


def test_altering_offsets_of_a_group_with_members_is_explained() -> None:
    script = GroupScript()
    partition = commit.OffsetCommitResponsePartition(
        partition_index=0, error_code=ErrorCode.UNKNOWN_MEMBER_ID
    )
    script.responses[OffsetCommitRequest] = lambda received: commit.OffsetCommitResponse(
        topics=[commit.OffsetCommitResponseTopic(name="t", partitions=[partition])]
    )

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        outcomes = await admin.group_offsets.alter("g", {T0: 5})
        assert "group 'g' has members: only they may commit" in str(outcomes[T0])

    run_with(script, action)


def test_deleting_offsets() -> None:
    def respond(received: ReceivedRequest) -> ScriptedResponse:
        assert isinstance(received.message, OffsetDeleteRequest)
        if received.message.group_id == "absent":
            return forget.OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        partitions = [
            forget.OffsetDeleteResponsePartition(partition_index=0),
            forget.OffsetDeleteResponsePartition(
                partition_index=1, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            ),
        ]
        return forget.OffsetDeleteResponse(
            topics=[forget.OffsetDeleteResponseTopic(name="t", partitions=partitions)]
        )

    script = GroupScript()
    script.responses[OffsetDeleteRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        outcomes = await admin.group_offsets.delete("g", [T0, T1])
        assert outcomes[T0] is None
        assert "group 'g' subscribes to 't'" in str(outcomes[T1])
        with pytest.raises(KafkaError, match="group 'absent' does not exist"):
            await admin.group_offsets.delete("absent", [T0])

    run_with(script, action)
