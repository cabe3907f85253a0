from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.group_descriptions import GroupDescription, GroupMember
from ruslo.client.admin.share_group_offsets import ShareOffset
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages import alter_share_group_offsets_response as alter
from ruslo.protocol.messages import delete_share_group_offsets_response as delete
from ruslo.protocol.messages import describe_share_group_offsets_response as offsets
from ruslo.protocol.messages import share_group_describe_response as share
from ruslo.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ruslo.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ruslo.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Responses = dict[type[Message], list[Message]]


def run_with(responses: Responses, action: Callable[[Admin, ScriptedBroker], Awaitable[None]]) -> None:
    """A coordinator with these responses, in order; the last one is repeated."""

    def respond(received: ReceivedRequest) -> Message:
        message = received.message
        if isinstance(message, FindCoordinatorRequest):
            return FindCoordinatorResponse(
                coordinators=[Coordinator(key=key, node_id=1) for key in message.coordinator_keys]
            )
        left = responses[type(message)]
        return left.pop(0) if len(left) > 1 else left[0]

    async def run() -> None:
        async with ScriptedBroker(respond) as broker, Admin(f"127.0.0.1:{broker.port}") as admin:
            await action(admin, broker)

    asyncio.run(run())


def test_describe() -> None:
    assigned = share.Assignment(
        topic_partitions=[share.TopicPartitions(topic_name="t", partitions=[1, 0])],
    )
    member = share.Member(
        member_id="m",
        rack_id="a",
        member_epoch=3,
        client_id="till",
        client_host="/10.0.0.1",
        subscribed_topic_names=["t"],
        assignment=assigned,
    )
    found = share.DescribedGroup(
        group_id="queue",
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=3,
        assignor_name="simple",
        members=[member],
    )
    missing = share.DescribedGroup(group_id="none", error_code=ErrorCode.GROUP_ID_NOT_FOUND)

    async def check(admin: Admin, broker: ScriptedBroker) -> None:
        described = await admin.share_groups.describe(["queue", "none"])
        assert described["queue"] == GroupDescription(
            "queue",
            "share",
            "Stable",
            "share",
            "simple",
            1,
            (GroupMember("m", None, "till", "10.0.0.1", "share", (T0, T1), ("t",), rack_id="a", epoch=3),),
            4,
            3,
        )
        error = described["none"]
        assert isinstance(error, KafkaError)
        assert error.code == ErrorCode.GROUP_ID_NOT_FOUND

    run_with({ShareGroupDescribeRequest: [share.ShareGroupDescribeResponse(groups=[found, missing])]}, check)


def test_offsets_that_are_not_known_yet() -> None:
    part = offsets.DescribeShareGroupOffsetsResponsePartition
    topic = offsets.DescribeShareGroupOffsetsResponseTopic(
        topic_name="t",
        partitions=[
            part(partition_index=2, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="no"),
            part(partition_index=1, start_offset=-1, lag=-1),
            part(partition_index=0, start_offset=7, lag=2),
        ],
    )
    group = offsets.DescribeShareGroupOffsetsResponseGroup(group_id="queue", topics=[topic])

    async def check(admin: Admin, broker: ScriptedBroker) -> None:
        found = await admin.share_group_offsets.fetch("queue")
        assert list(found) == [T0, T1, TopicPartition("t", 2)]
        assert found[T0] == ShareOffset(7, 2, None)
        assert found[T1] == ShareOffset(None, None, None)
        error = found[TopicPartition("t", 2)].error
        assert error is not None
        assert error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    response = offsets.DescribeShareGroupOffsetsResponse(groups=[group])
    run_with({DescribeShareGroupOffsetsRequest: [response]}, check)


def test_alter_reports_each_partition_and_waits_for_the_coordinator() -> None:
    part = alter.AlterShareGroupOffsetsResponsePartition
    topic = alter.AlterShareGroupOffsetsResponseTopic(
        topic_name="t",
        partitions=[
            part(partition_index=0),
            part(partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
    )
    loading = alter.AlterShareGroupOffsetsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    done = alter.AlterShareGroupOffsetsResponse(responses=[topic])

    async def check(admin: Admin, broker: ScriptedBroker) -> None:
        outcomes = await admin.share_group_offsets.alter("queue", {T0: 3, T1: 4})
        assert outcomes[T0] is None
        error = outcomes[T1]
        assert error is not None
        assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        sent = broker.requests_of(AlterShareGroupOffsetsRequest.API_KEY)
        assert len(sent) == 2
        request = sent[-1].message
        assert isinstance(request, AlterShareGroupOffsetsRequest)
        assert [part.start_offset for part in request.topics[0].partitions] == [3, 4]

    run_with({AlterShareGroupOffsetsRequest: [loading, done]}, check)


def test_a_group_with_members_keeps_its_offsets() -> None:
    error = alter.AlterShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP)

    async def check(admin: Admin, broker: ScriptedBroker) -> None:
        with pytest.raises(KafkaError, match="group 'queue' has members"):
            await admin.share_group_offsets.alter("queue", {T0: 3})

    run_with({AlterShareGroupOffsetsRequest: [error]}, check)


def test_delete_reports_each_topic() -> None:
    topic = delete.DeleteShareGroupOffsetsResponseTopic
    response = delete.DeleteShareGroupOffsetsResponse(
        responses=[
            topic(topic_name="t"),
            topic(topic_name="u", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message="no u"),
        ]
    )

    async def check(admin: Admin, broker: ScriptedBroker) -> None:
        outcomes = await admin.share_group_offsets.delete("queue", ["t", "u"])
        assert outcomes["t"] is None
        assert str(outcomes["u"]) == "UNKNOWN_TOPIC_OR_PARTITION: no u"

    run_with({DeleteShareGroupOffsetsRequest: [response]}, check)
