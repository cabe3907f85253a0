from __future__ import annotations

import asyncio

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.views.group_view import GroupRow, list_rows
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages import consumer_group_describe_response as described
from ruslo.protocol.messages import describe_share_group_offsets_response as shared
from ruslo.protocol.messages import list_groups_response as listed
from ruslo.protocol.messages import offset_fetch_response as fetched
from ruslo.protocol.messages import share_group_describe_response as share
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_offsets_request import ListOffsetsRequest
from ruslo.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

TYPES = {"open": "Consumer", "hidden": "Consumer", "shared": "Share"}


class Groups:
    """Three groups: a consumer group, an unauthorized one, and a share group."""

    def __init__(self, code: int, shared_fails: bool = False) -> None:
        self.code = code
        """The result of the unauthorized group."""
        self.shared_fails = shared_fails

    def __call__(self, received: ReceivedRequest) -> ScriptedResponse:
        return self._respond(received.message)

    def _respond(self, request: Message) -> ScriptedResponse:
        match request:
            case ListGroupsRequest():
                groups = [
                    listed.ListedGroup(group_id=name, group_type=kind, group_state="Stable")
                    for name, kind in TYPES.items()
                ]
                return listed.ListGroupsResponse(groups=groups)
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(
                    coordinators=[Coordinator(key=key, node_id=1) for key in request.coordinator_keys]
                )
            case ConsumerGroupDescribeRequest():
                assert "shared" not in request.group_ids
                one = described.DescribedGroup(group_id="open", members=[described.Member(member_id="m")])
                other = described.DescribedGroup(
                    group_id="hidden", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
                return described.ConsumerGroupDescribeResponse(groups=[one, other])
            case OffsetFetchRequest():
                partition = fetched.OffsetFetchResponsePartitions(partition_index=0, committed_offset=2)
                topic = fetched.OffsetFetchResponseTopics(name="t", partitions=[partition])
                seen = fetched.OffsetFetchResponseGroup(group_id="open", topics=[topic])
                unseen = fetched.OffsetFetchResponseGroup(group_id="hidden", error_code=self.code)
                return fetched.OffsetFetchResponse(groups=[seen, unseen])
            case ShareGroupDescribeRequest():
                assert request.group_ids == ["shared"]
                members = [share.Member(member_id=name) for name in "ab"]
                group = share.DescribedGroup(group_id="shared", group_state="Stable", members=members)
                return share.ShareGroupDescribeResponse(groups=[group])
            case DescribeShareGroupOffsetsRequest():
                parts = [
                    shared.DescribeShareGroupOffsetsResponsePartition(
                        partition_index=index, start_offset=3, lag=lag
                    )
                    for index, lag in ((0, 5), (1, -1))
                ]
                topics = [shared.DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=parts)]
                return shared.DescribeShareGroupOffsetsResponse(
                    groups=[
                        shared.DescribeShareGroupOffsetsResponseGroup(
                            group_id="shared", topics=topics, error_code=self.code if self.shared_fails else 0
                        )
                    ]
                )
            case ListOffsetsRequest():
                end = ListOffsetsPartitionResponse(partition_index=0, offset=9)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[end])])
        raise KeyError


def rows(code: int, shared_fails: bool = False) -> list[GroupRow]:
    async def run() -> list[GroupRow]:
        async with ScriptedBroker(Groups(code, shared_fails)) as broker:
            broker.topics = {"t": 1}
            async with Admin(f"127.0.0.1:{broker.port}") as admin:
                return await list_rows(admin, with_lag=True)

    return asyncio.run(run())


def test_unauthorized_groups_are_listed() -> None:
    assert rows(ErrorCode.GROUP_AUTHORIZATION_FAILED) == [
        GroupRow("hidden", "consumer", "Stable", None, None, 1, None),
        GroupRow("open", "consumer", "Stable", None, 1, 1, 7),
        GroupRow("shared", "share", "Stable", None, 2, 1, 5),
    ]


def test_an_unauthorized_share_group_has_no_lag() -> None:
    found = rows(ErrorCode.GROUP_AUTHORIZATION_FAILED, shared_fails=True)
    assert found[2] == GroupRow("shared", "share", "Stable", None, 2, 1, None)


def test_other_errors_of_the_lag_are_raised() -> None:
    with pytest.raises(KafkaError) as caught:
        rows(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
