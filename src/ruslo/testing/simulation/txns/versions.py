"""The differences of clients with transaction version 1 and 2 (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.testing.simulation.txns.process import Script

if TYPE_CHECKING:
    from ruslo.testing.simulation.txns.producer import SimProducer

RETRIABLE_ERRORS = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class ClientVersion(NamedTuple):
    """The request versions of a client."""

    produce: int
    txn_offset_commit: int
    end: int

    @property
    def is_v2(self) -> bool:
        return self.end >= 5


V1 = ClientVersion(produce=11, txn_offset_commit=4, end=4)
V2 = ClientVersion(produce=12, txn_offset_commit=5, end=5)


def add_partition(producer: SimProducer, tp: TopicPartition) -> Script[None]:
    """Version 1: add the partition at the coordinator before its first batch."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition])],
    )
    while True:
        reply = yield from producer.call_coordinator(request, 3, AddPartitionsToTxnResponse)
        code = None
        if reply is not None:
            (topic,) = reply.results_by_topic_v3_and_below
            code = ErrorCode(topic.results_by_partition[0].partition_error_code)
        if code is ErrorCode.NONE:
            return
        yield from producer.back_off(code)
