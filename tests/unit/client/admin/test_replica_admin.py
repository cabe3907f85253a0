"""Reassignments, elections and voters: requests, retries, and requests that must not be retried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.leader_elections import ElectionType
from ruslo.client.admin.reassignments import OngoingReassignment
from ruslo.client.settings.bootstrap_servers import Address
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ruslo.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ruslo.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ruslo.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ruslo.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ruslo.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def run_with(responses: Sequence[Message], action: Callable[[Admin], Awaitable[None]]) -> list[Message]:
    """Send these responses to all requests except ApiVersions and Metadata; return the requests."""
    waiting = list(responses)

    def script(received: ReceivedRequest) -> ScriptedResponse:
        if received.api_key in (3, 18):
            raise KeyError
        return waiting.pop(0)

    async def run() -> list[Message]:
        async with ScriptedBroker(script) as broker, Admin(f"127.0.0.1:{broker.port}") as admin:
            await action(admin)
            return [received.message for received in broker.requests if received.api_key not in (3, 18)]

    received = asyncio.run(run())
    assert not waiting
    return received


def test_reassignments_are_grouped_by_topic_with_results_by_partition() -> None:
    response = AlterPartitionReassignmentsResponse(
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name="t",
                partitions=[
                    ReassignablePartitionResponse(partition_index=0, error_message=None),
                    ReassignablePartitionResponse(
                        partition_index=1, error_code=85, error_message="not moving"
                    ),
                ],
            ),
            ReassignableTopicResponse(
                name="u", partitions=[ReassignablePartitionResponse(partition_index=0, error_message=None)]
            ),
        ],
    )

    async def action(admin: Admin) -> None:
        results = await admin.reassignments.alter({T0: (1, 2), U0: (3,), T1: None})
        assert (results[T0], results[U0]) == (None, None)
        rejected = results[T1]
        assert rejected is not None
        assert (rejected.code, rejected.message) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "not moving")

    (received,) = run_with([response], action)
    assert isinstance(received, AlterPartitionReassignmentsRequest)
    assert [
        (topic.name, [(each.partition_index, each.replicas) for each in topic.partitions])
        for topic in received.topics
    ] == [("t", [(0, [1, 2]), (1, None)]), ("u", [(0, [3])])]


def test_a_reassignment_is_retried_at_the_new_controller() -> None:
    lost = AlterPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    done = AlterPartitionReassignmentsResponse(error_message=None)

    async def action(admin: Admin) -> None:
        assert await admin.reassignments.alter({T0: (1,)}) == {}

    assert len(run_with([lost, done], action)) == 2


def test_ongoing_reassignments() -> None:
    moving = OngoingPartitionReassignment(
        partition_index=1, replicas=[4, 5, 1, 2], adding_replicas=[4, 5], removing_replicas=[1, 2]
    )
    response = ListPartitionReassignmentsResponse(
        error_message=None, topics=[OngoingTopicReassignment(name="t", partitions=[moving])]
    )

    async def action(admin: Admin) -> None:
        for partitions in (None, [T0, T1]):
            found = await admin.reassignments.ongoing(partitions)
            assert found == {T1: OngoingReassignment((4, 5, 1, 2), (4, 5), (1, 2))}
            assert found[T1].target == (4, 5)

    all_topics, named = run_with([response, response], action)
    assert isinstance(all_topics, ListPartitionReassignmentsRequest)
    assert isinstance(named, ListPartitionReassignmentsRequest)
    assert all_topics.topics is None
    assert [(each.name, each.partition_indexes) for each in named.topics or []] == [("t", [0, 1])]


def test_elections() -> None:
    results = [
        PartitionResult(partition_id=1, error_code=84, error_message="not needed"),
        PartitionResult(partition_id=0, error_message=None),
    ]
    response = ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic="t", partition_result=results)]
    )
    rejected = ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def action(admin: Admin) -> None:
        elected = await admin.leader_elections.elect(ElectionType.UNCLEAN, [T0, T1])
        assert list(elected) == [T0, T1]
        assert elected[T0] is None
        with pytest.raises(KafkaError) as error:
            await admin.leader_elections.elect(ElectionType.PREFERRED)
        assert error.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    unclean, preferred = run_with([response, rejected], action)
    assert isinstance(unclean, ElectLeadersRequest)
    assert isinstance(preferred, ElectLeadersRequest)
    assert (unclean.election_type, preferred.election_type) == (1, 0)
    assert preferred.topic_partitions is None


def test_a_voter_whose_addition_timed_out_is_not_added_twice() -> None:
    slow = AddRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="too slow")

    async def action(admin: Admin) -> None:
        with pytest.raises(KafkaError, match="too slow"):
            await admin.quorum.add_voter(4, bytes(16), "CONTROLLER", Address("ctl4", 9093))

    (received,) = run_with([slow], action)
    assert isinstance(received, AddRaftVoterRequest)
    assert (received.voter_id, received.ack_when_committed) == (4, True)
    assert [(each.name, each.host, each.port) for each in received.listeners] == [
        ("CONTROLLER", "ctl4", 9093)
    ]
