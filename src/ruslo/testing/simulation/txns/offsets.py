"""Consume-transform-produce: a producer's position in its source, and the offsets of its group.

The source is endless, and reading [first, end) of it is only recorded. Every transactional id has its own
group, whose offset only its current producer may move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ruslo.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ruslo.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from ruslo.testing.histories import FetchOffsets, Kind, SendOffsets
from ruslo.testing.histories.events import UNSTABLE
from ruslo.testing.simulation.txns.cluster import OFFSETS, SOURCE_TOPIC
from ruslo.testing.simulation.txns.process import Script, Sleep
from ruslo.testing.simulation.txns.versions import RETRIABLE_ERRORS

if TYPE_CHECKING:
    from ruslo.testing.simulation.txns.producer import SimProducer

SOURCE = TopicPartition(SOURCE_TOPIC, 0)
FETCH_VERSION = 9
TRIES = 8


def group_of(transactional_id: str) -> str:
    return f"group of {transactional_id}"


def fetch_request(group: str) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=SOURCE.topic, partition_indexes=[SOURCE.partition])]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True
    )


def fetched_offset(response: OffsetFetchResponse) -> int | None:
    """The committed offset; None: unknown."""
    (group,) = response.groups
    if group.error_code:
        return None
    (partition,) = group.topics[0].partitions
    if partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
        return UNSTABLE
    return None if partition.error_code else partition.committed_offset


class SourceReader:
    def __init__(self, producer: SimProducer) -> None:
        self._producer = producer
        self._group = group_of(producer.transactional_id)
        self._position: int | None = None

    def forget_position(self) -> None:
        """Reset the position to the committed offset after an aborted transaction."""
        self._position = None

    def send_offsets(self, transaction: str) -> Script[bool]:
        """Read records and commit their offsets in the transaction; False: it must be aborted."""
        producer = self._producer
        if self._position is None:
            self._position = yield from self._committed_position()
        if self._position is None:
            return False
        first = self._position
        call = SendOffsets(transaction, self._group, SOURCE, first, first + producer.random.randint(1, 9))
        producer.invoke(call)
        if not producer.version.is_v2:
            yield from self._add_group()
        code = yield from self._commit(call.end)
        sent = code is ErrorCode.NONE
        producer.complete(Kind.OK if sent else Kind.INFO, call, code.name)
        self._position = call.end
        return sent

    def _committed_position(self) -> Script[int | None]:
        producer, request = self._producer, fetch_request(self._group)
        producer.invoke(FetchOffsets(self._group))
        for _ in range(TRIES):
            leader = producer.cluster.leaders[OFFSETS]
            reply = yield from producer.call(leader, request, FETCH_VERSION, OffsetFetchResponse)
            offset = None if reply is None else fetched_offset(reply)
            if offset is not None and offset != UNSTABLE:
                producer.complete(Kind.OK, FetchOffsets(self._group, False, ((SOURCE, offset),)))
                return max(offset, 0)
            yield Sleep(producer.random.randint(1, 60))
        producer.complete(Kind.FAIL, FetchOffsets(self._group))
        return None

    def _add_group(self) -> Script[None]:
        producer = self._producer
        request = AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=self._group,
        )
        while True:
            reply = yield from producer.call_coordinator(request, 4, AddOffsetsToTxnResponse)
            code = None if reply is None else ErrorCode(reply.error_code)
            if code is ErrorCode.NONE:
                return
            yield from producer.back_off(code)

    def _commit(self, offset: int) -> Script[ErrorCode]:
        producer = self._producer
        partition = TxnOffsetCommitRequestPartition(
            partition_index=SOURCE.partition, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            group_id=self._group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            generation_id_or_member_epoch=-1,
            topics=[TxnOffsetCommitRequestTopic(name=SOURCE.topic, partitions=[partition])],
        )
        version = producer.version.txn_offset_commit
        code = ErrorCode.REQUEST_TIMED_OUT
        for _ in range(TRIES):
            leader = producer.cluster.leaders[OFFSETS]
            reply = yield from producer.call_node(leader, request, version, TxnOffsetCommitResponse)
            if reply is not None:
                code = ErrorCode(reply.topics[0].partitions[0].error_code)
                if code not in RETRIABLE_ERRORS:
                    return code
            yield Sleep(producer.random.randint(1, 60))
        return code
