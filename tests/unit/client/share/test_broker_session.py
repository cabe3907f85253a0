from __future__ import annotations

from collections.abc import Callable

import pytest

from ruslo.client.share.acknowledgements import Acknowledgements, SharePartitionId
from ruslo.client.share.broker_session import BrokerSession
from ruslo.client.share.session import FetchLimits
from ruslo.client.wire.cluster import Cluster
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcknowledgementBatch
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import random_uuid, uuid_to_text
from ruslo.protocol.message import Message
from ruslo.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from ruslo.protocol.messages.share_acknowledge_response import (
    PartitionData as AcknowledgedPartition,
)
from ruslo.protocol.messages.share_acknowledge_response import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ruslo.protocol.messages.share_fetch_request import ShareFetchRequest
from ruslo.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

TOPIC = random_uuid()
FIRST, SECOND = SharePartitionId("orders", TOPIC, 0), SharePartitionId("orders", TOPIC, 1)
ACCEPTED: Acknowledgements = {FIRST: [AcknowledgementBatch(5, 9, (AcknowledgeType.ACCEPT,))]}
LIMITS = FetchLimits(max_wait_ms=0)


class Leader:
    """A broker with scripted responses; an empty script has one without partitions."""

    def __init__(self, *script: Callable[[], ScriptedResponse]) -> None:
        self._script = list(script)
        self.received: list[Message] = []

    def __call__(self, received: ReceivedRequest) -> ScriptedResponse:
        if not isinstance(received.message, ShareFetchRequest | ShareAcknowledgeRequest):
            raise KeyError
        self.received.append(received.message)
        if self._script:
            return self._script.pop(0)()
        is_fetch = isinstance(received.message, ShareFetchRequest)
        return ShareFetchResponse(acquisition_lock_timeout_ms=1) if is_fetch else ShareAcknowledgeResponse()

    def epochs(self) -> list[tuple[str, int]]:
        return [
            ("fetch" if isinstance(each, ShareFetchRequest) else "acknowledge", each.share_session_epoch)
            for each in self.received
            if isinstance(each, ShareFetchRequest | ShareAcknowledgeRequest)
        ]


def session_with(cluster: Cluster) -> BrokerSession:
    return BrokerSession(cluster, 1, "group", uuid_to_text(random_uuid()), 5_000)


def fetched(*parts: PartitionData) -> ShareFetchResponse:
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=15_000,
        responses=[ShareFetchableTopicResponse(topic_id=TOPIC, partitions=list(parts))],
    )


def acknowledged(*codes: int) -> ShareAcknowledgeResponse:
    parts = [AcknowledgedPartition(partition_index=at, error_code=code) for at, code in enumerate(codes)]
    return ShareAcknowledgeResponse(
        responses=[ShareAcknowledgeTopicResponse(topic_id=TOPIC, partitions=parts)]
    )


async def test_a_fetch_returns_what_each_partition_acquired() -> None:
    acquired = AcquiredRecords(first_offset=5, last_offset=9, delivery_count=2)
    leader = Leader(
        lambda: fetched(
            PartitionData(partition_index=0, acquired_records=[acquired]),
            PartitionData(partition_index=1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        )
    )
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        found = await session.fetch([FIRST, SECOND], LIMITS)
    ((partition, node_id, ranges, _, lock_timeout_ms),) = [
        (each.partition, each.node_id, each.ranges, each.records, each.lock_timeout_ms)
        for each in found.acquired
    ]
    assert (partition, node_id, ranges, lock_timeout_ms) == (FIRST, 1, [(5, 9, 2)], 15_000)
    assert found.errors[SECOND].code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_acknowledgements_travel_with_the_next_fetch() -> None:
    leader = Leader(
        fetched,
        lambda: fetched(
            PartitionData(partition_index=0, acknowledge_error_code=ErrorCode.INVALID_RECORD_STATE)
        ),
    )
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        await session.fetch([FIRST], LIMITS)
        found = await session.fetch([FIRST], LIMITS, ACCEPTED)
    assert leader.epochs() == [("fetch", 0), ("fetch", 1)]
    error = found.outcomes[FIRST]
    assert error is not None
    assert error.code == ErrorCode.INVALID_RECORD_STATE


async def test_acknowledgements_of_partitions_that_are_not_fetched_go_ahead() -> None:
    leader = Leader(fetched, lambda: acknowledged(0), fetched)
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        await session.fetch([FIRST, SECOND], LIMITS)
        found = await session.fetch([SECOND], LIMITS, ACCEPTED)
    assert leader.epochs() == [("fetch", 0), ("acknowledge", 1), ("fetch", 2)]
    assert found.outcomes == {FIRST: None}


async def test_renewals_go_ahead_of_a_fetch_with_the_other_decisions() -> None:
    leader = Leader(
        fetched, lambda: acknowledged(0), lambda: fetched(PartitionData(partition_index=1)), fetched
    )
    renewed: Acknowledgements = {
        FIRST: [AcknowledgementBatch(5, 6, (AcknowledgeType.RENEW, AcknowledgeType.ACCEPT))],
        SECOND: [AcknowledgementBatch(1, 1, (AcknowledgeType.ACCEPT,))],
    }
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        await session.fetch([FIRST, SECOND], LIMITS)
        found = await session.fetch([FIRST, SECOND], LIMITS, renewed)
    assert leader.epochs() == [("fetch", 0), ("acknowledge", 1), ("fetch", 2)]
    assert found.outcomes == {FIRST: None, SECOND: None}
    ahead, carrier = leader.received[1:]
    assert isinstance(ahead, ShareAcknowledgeRequest)
    assert ahead.is_renew_ack
    (topic,) = ahead.topics
    (batch,) = topic.partitions[0].acknowledgement_batches
    assert [part.partition_index for part in topic.partitions] == [0]
    assert batch.acknowledge_types == [AcknowledgeType.RENEW, AcknowledgeType.ACCEPT]
    assert isinstance(carrier, ShareFetchRequest)
    assert not carrier.is_renew_ack
    assert [part.partition_index for part in carrier.topics[0].partitions] == [1]


async def test_a_lost_fetch_does_not_change_the_outcomes_of_renewals_ahead_of_it() -> None:
    leader = Leader(fetched, lambda: acknowledged(0), lambda: None)
    renewed: Acknowledgements = {FIRST: [AcknowledgementBatch(5, 5, (AcknowledgeType.RENEW,))]}
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        await session.fetch([FIRST], LIMITS)
        found = await session.fetch([FIRST], LIMITS, renewed)
    assert found.outcomes == {FIRST: None}
    assert found.errors[FIRST].code == ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
async def test_acknowledgements_outlive_a_lost_session(code: ErrorCode) -> None:
    leader = Leader(
        fetched, lambda: ShareAcknowledgeResponse(error_code=code), fetched, lambda: acknowledged(0)
    )
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        await session.fetch([FIRST], LIMITS)
        assert await session.acknowledge(ACCEPTED) == {FIRST: None}
    assert leader.epochs() == [("fetch", 0), ("acknowledge", 1), ("fetch", 0), ("acknowledge", 1)]


async def test_a_lost_connection_fails_acknowledgements_and_begins_a_new_session() -> None:
    leader = Leader(fetched, lambda: None, fetched, lambda: acknowledged(0))
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        await session.fetch([FIRST], LIMITS)
        outcome = (await session.acknowledge(ACCEPTED))[FIRST]
        assert outcome is not None
        assert outcome.code == ErrorCode.NETWORK_EXCEPTION
        await session.fetch([FIRST], LIMITS)
        assert await session.acknowledge(ACCEPTED) == {FIRST: None}
    assert leader.epochs() == [("fetch", 0), ("acknowledge", 1), ("fetch", 0), ("acknowledge", 1)]


async def test_a_response_without_the_partition_is_an_error() -> None:
    leader = Leader(fetched, ShareAcknowledgeResponse)
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        await session.fetch([FIRST], LIMITS)
        error = (await session.acknowledge(ACCEPTED))[FIRST]
    assert error is not None
    assert "does not include orders-0" in str(error)


async def test_a_rejected_fetch_raises_and_begins_again() -> None:
    leader = Leader(lambda: ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_LIMIT_REACHED), fetched)
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        with pytest.raises(KafkaError) as caught:
            await session.fetch([FIRST], LIMITS)
        assert caught.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        await session.fetch([FIRST], LIMITS)
    assert leader.epochs() == [("fetch", 0), ("fetch", 0)]


async def test_closing_sends_the_last_acknowledgements_with_the_final_epoch() -> None:
    leader = Leader(fetched, lambda: acknowledged(0))
    async with ScriptedBroker(leader) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        session = session_with(cluster)
        assert await session.close({}) == {}, "there is no session to close"
        await session.fetch([FIRST], LIMITS)
        assert await session.close(ACCEPTED) == {FIRST: None}
    assert leader.epochs() == [("fetch", 0), ("acknowledge", -1)]
