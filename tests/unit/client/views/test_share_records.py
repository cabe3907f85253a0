from __future__ import annotations

import asyncio

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.views.share_records import Outcome, acknowledge_records
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages import describe_share_group_offsets_response as offsets
from ruslo.protocol.messages import share_acknowledge_response as acknowledged
from ruslo.protocol.messages import share_fetch_response as fetched
from ruslo.protocol.messages.describe_configs_request import DescribeConfigsRequest
from ruslo.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ruslo.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ruslo.protocol.messages.list_offsets_request import ListOffsetsRequest
from ruslo.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ruslo.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from ruslo.protocol.messages.share_fetch_request import ShareFetchRequest
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker

T0 = TopicPartition("t", 0)
TOPIC_ID = b"t".ljust(16, b"_")
END = 10
FINAL_EPOCH = -1


class Leader:
    """The leader of a partition whose records are available with these delivery counts."""

    def __init__(self, counts: dict[int, int], start: int = 0) -> None:
        self.counts = counts
        self.start = start
        self.fetch_error = 0
        self.acknowledge_error = 0
        self.acknowledged: list[ShareAcknowledgeRequest] = []

    @property
    def is_closed(self) -> bool:
        return self.acknowledged[-1].share_session_epoch == FINAL_EPOCH

    def __call__(self, received: ReceivedRequest) -> Message:
        match received.message:
            case FindCoordinatorRequest() as find:
                keys = find.coordinator_keys
                return FindCoordinatorResponse(coordinators=[Coordinator(key=key, node_id=1) for key in keys])
            case ListOffsetsRequest() as listing:
                offset = 0 if listing.topics[0].partitions[0].timestamp == -2 else END
                part = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])
            case DescribeConfigsRequest():
                limit = DescribeConfigsResourceResult(name="share.delivery.count.limit", value="3")
                return DescribeConfigsResponse(
                    results=[DescribeConfigsResult(resource_type=32, resource_name="g", configs=[limit])]
                )
            case DescribeShareGroupOffsetsRequest():
                known = offsets.DescribeShareGroupOffsetsResponsePartition(
                    partition_index=0, start_offset=self.start
                )
                topic = offsets.DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=[known])
                group = offsets.DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic])
                return offsets.DescribeShareGroupOffsetsResponse(groups=[group])
            case ShareFetchRequest():
                return self._fetch()
            case ShareAcknowledgeRequest() as request:
                return self._acknowledge(request)
        raise KeyError

    def _fetch(self) -> Message:
        found = [] if not self.counts else [min(self.counts)]
        part = fetched.PartitionData(
            error_code=self.fetch_error,
            records=b"",
            acquired_records=[
                fetched.AcquiredRecords(
                    first_offset=each, last_offset=each, delivery_count=self.counts.pop(each)
                )
                for each in found
            ],
        )
        topic = fetched.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])
        return fetched.ShareFetchResponse(acquisition_lock_timeout_ms=1000, responses=[topic])

    def _acknowledge(self, request: ShareAcknowledgeRequest) -> Message:
        self.acknowledged.append(request)
        part = acknowledged.PartitionData(error_code=self.acknowledge_error)
        topic = acknowledged.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=[part])
        return acknowledged.ShareAcknowledgeResponse(responses=[topic] if request.topics else [])


def acknowledge(leader: Leader, offsets: set[int], kind: AcknowledgeType) -> Outcome:
    async def run() -> Outcome:
        async with ScriptedBroker(leader) as broker:
            broker.topics = {"t": 1}
            async with Admin(f"127.0.0.1:{broker.port}") as admin:
                (outcome,) = await acknowledge_records(admin, "g", {T0: offsets}, kind)
                return outcome

    return asyncio.run(run())


def test_only_named_records_are_acknowledged_and_acquiring_ends_with_them() -> None:
    leader = Leader({3: 1, 4: 3, 5: 2, 6: 1}, start=3)
    outcome = acknowledge(leader, {1, 5}, AcknowledgeType.REJECT)
    assert outcome == Outcome(T0, {5: 2}, {}, [1], {3: 1, 4: 3}, [4])
    assert leader.counts == {6: 1}
    (batch,) = leader.acknowledged[0].topics[0].partitions[0].acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (5, 5, [3])
    assert leader.is_closed


def test_records_that_a_consumer_holds_are_unavailable() -> None:
    leader = Leader({7: 1, 8: 1})
    outcome = acknowledge(leader, {4, 5}, AcknowledgeType.REJECT)
    # The first available record is behind them, so it is released again and nothing more is acquired.
    assert outcome == Outcome(T0, {}, {}, [4, 5], {7: 1}, [])
    assert leader.is_closed


def test_released_records_at_the_limit_are_archived() -> None:
    outcome = acknowledge(Leader({0: 3, 1: 1}), {0, 1}, AcknowledgeType.RELEASE)
    assert (outcome.acknowledged, outcome.archived) == ({0: 3, 1: 1}, [0])


def test_a_rejected_acknowledgement() -> None:
    leader = Leader({0: 1})
    leader.acknowledge_error = ErrorCode.INVALID_RECORD_STATE
    outcome = acknowledge(leader, {0}, AcknowledgeType.REJECT)
    assert {offset: error.code for offset, error in outcome.failed.items()} == {
        0: ErrorCode.INVALID_RECORD_STATE
    }


def test_a_session_is_closed_after_an_error() -> None:
    leader = Leader({0: 1})
    leader.fetch_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        acknowledge(leader, {0}, AcknowledgeType.REJECT)
    assert leader.is_closed


def test_offsets_outside_of_the_log_are_rejected_first() -> None:
    leader = Leader({0: 1})
    with pytest.raises(KafkaError, match="t-0 has no offset 10: it has offsets 0 to 9"):
        acknowledge(leader, {0, END}, AcknowledgeType.REJECT)
    assert leader.counts == {0: 1}
