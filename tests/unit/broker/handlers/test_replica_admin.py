"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders and UnregisterBroker."""

from __future__ import annotations

from typing import Any

import pytest

from ruslo.broker.handlers import controller_changes, create_topics
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ruslo.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.support.brokers.handlers import exchange
from tests.support.machines.controller_bench import AdminNode, admin_node, registration

decide: Any = controller_changes.handle
"""Handles requests of many types, so its response has none of its own."""


async def prepare(node: AdminNode) -> None:
    """Create topic t on broker 1; broker 2 is registered but fenced."""
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await exchange(create_topics.handle, node, CreateTopicsRequest(topics=[topic]))
    response = await node.controller.submit(registration(2))
    assert isinstance(response, BrokerRegistrationResponse)


def reassign_request(target: list[int] | None, *, fixed: bool = False) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=target)
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[partition])],
        # Versions without the field must send the default.
        allow_replication_factor_change=not fixed,
    )


@pytest.mark.parametrize("version", range(2))
async def test_reassign_list_and_cancel(version: int) -> None:
    async with admin_node() as node:
        await prepare(node)
        response = await exchange(decide, node, reassign_request([2, 1]), version)
        assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0)
        # The broker itself has already applied the reassignment.
        assert node.image.topics.by_name["t"].partitions[0].adding == (2,)
        requested = ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])
        listed = await exchange(decide, node, ListPartitionReassignmentsRequest(topics=[requested]))
        (partition,) = listed.topics[0].partitions
        assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
            [2, 1],
            [2],
            [],
        )
        await exchange(decide, node, reassign_request(None), version)
        all_topics = ListPartitionReassignmentsRequest(topics=None)
        listed = await exchange(decide, node, all_topics)
        assert listed.topics == []
        if version >= 1:
            request = reassign_request([1, 2], fixed=True)
            response = await exchange(decide, node, request, version)
            (result,) = response.responses[0].partitions
            assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICATION_FACTOR
            assert not response.allow_replication_factor_change


@pytest.mark.parametrize("version", range(3))
async def test_elect_in_every_version(version: int) -> None:
    async with admin_node() as node:
        await prepare(node)
        named = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 9])])
        response = await exchange(decide, node, named, version)
        codes = [ErrorCode(each.error_code) for each in response.replica_election_results[0].partition_result]
        assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        elected = await exchange(decide, node, ElectLeadersRequest(topic_partitions=None), version)
        assert [(each.topic, each.partition_result) for each in elected.replica_election_results] == [
            ("t", [])
        ]
        # Without an active controller each version returns the error where it has a field for it.
        node.raft.resign()
        rejected = await exchange(decide, node, named, version, as_response=True)
        results = rejected.replica_election_results[0].partition_result
        assert [ErrorCode(each.error_code) for each in results] == [ErrorCode.NOT_CONTROLLER] * 2
        assert rejected.error_code == (ErrorCode.NOT_CONTROLLER if version >= 1 else ErrorCode.NONE)


async def test_election_that_does_not_commit_in_time() -> None:
    async with admin_node() as node:
        await prepare(node)
        node.raft.commits_automatically = False
        await_commit = node.controller.submit(reassign_request([2, 1]))
        request = ElectLeadersRequest(topic_partitions=None, timeout_ms=1)
        response = await exchange(decide, node, request, as_response=True)
        assert ErrorCode(response.error_code) is ErrorCode.REQUEST_TIMED_OUT
        node.raft.commits_automatically = True
        node.raft.commit()
        await await_commit


@pytest.mark.parametrize(
    "request_",
    [
        reassign_request([2]),
        ListPartitionReassignmentsRequest(topics=None),
        UnregisterBrokerRequest(broker_id=2),
    ],
)
async def test_without_a_controller_the_whole_request_fails(request_: Message) -> None:
    """The handler raises KafkaError, and the dispatcher writes it into the response."""
    async with admin_node() as node:
        await prepare(node)
        node.raft.resign()
        with pytest.raises(KafkaError) as caught:
            await exchange(decide, node, request_)
        assert caught.value.code is ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    "request_",
    [
        AlterPartitionReassignmentsRequest(timeout_ms=1),
        ListPartitionReassignmentsRequest(topics=None, timeout_ms=1),
    ],
)
async def test_requests_that_do_not_commit_in_time(request_: Message) -> None:
    async with admin_node() as node:
        await prepare(node)
        node.raft.commits_automatically = False
        first = node.controller.submit(reassign_request([2, 1]))
        with pytest.raises(KafkaError) as caught:
            await exchange(decide, node, request_)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        node.raft.commits_automatically = True
        node.raft.commit()
        await first


async def test_unregister() -> None:
    async with admin_node() as node:
        await prepare(node)
        response = await exchange(decide, node, UnregisterBrokerRequest(broker_id=2))
        assert response.error_code == 0
        assert list(node.image.cluster.brokers) == [1]
        with pytest.raises(KafkaError) as caught:
            await exchange(decide, node, UnregisterBrokerRequest(broker_id=2))
        assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
