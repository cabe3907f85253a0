"""A transactional producer of either transaction version that sends plain requests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ruslo.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from ruslo.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ruslo.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from ruslo.records.batch import TRANSACTIONAL
from tests.support.brokers.live_node import LiveNode, batch_of
from tests.support.clients.raw_client import RawClient

V1_PRODUCE, V2_PRODUCE = 11, 13
V1_END, V2_END = 4, 5
V1_OFFSETS, V2_OFFSETS = 4, 5
TRANSACTION_KEY = 1
TODAY = int(time.time() * 1000)
"""Markers carry the broker's own time: records of long ago would be in another segment than their markers."""


async def find_txn_coordinator(client: RawClient, transactional_id: str) -> Coordinator:
    request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id])
    (found,) = (await client.call(request, FindCoordinatorResponse)).coordinators
    return found


@dataclass
class TxnProducer:
    """Keeps producer id, epoch and sequences as a client does; returns error codes."""

    node: LiveNode
    client: RawClient
    transactional_id: str = "tx"
    is_v2: bool = True
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    async def init(self, timeout_ms: int = 60_000) -> ErrorCode:
        """Initialize the producer id; earlier producers of the transactional id are fenced."""
        if self.producer_id < 0:
            assert (await find_txn_coordinator(self.client, self.transactional_id)).error_code == 0
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        response = await self.client.call(request, InitProducerIdResponse)
        if not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()
        return ErrorCode(response.error_code)

    async def add(self, topic: str = "t", index: int = 0, version: int = 3) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        response = await self.client.call(request, AddPartitionsToTxnResponse, version)
        (result,) = response.results_by_topic_v3_and_below[0].results_by_partition
        return ErrorCode(result.partition_error_code)

    def batch(self, *values: bytes, topic: str = "t", index: int = 0) -> bytearray:
        sequence = self.sequences.get((topic, index), 0)
        self.sequences[topic, index] = sequence + len(values)
        return batch_of(
            *values,
            timestamp=TODAY,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )

    async def write(
        self, *values: bytes, topic: str = "t", index: int = 0, version: int | None = None
    ) -> ErrorCode:
        """Produce only; a version 1 producer has to ``add`` before."""
        if version is None:
            version = V2_PRODUCE if self.is_v2 else V1_PRODUCE
        batch = self.batch(*values, topic=topic, index=index)
        response = await self.node.produce(
            self.client, batch, topic, index, version=version, transactional_id=self.transactional_id
        )
        return ErrorCode(response.error_code)

    async def send(self, *values: bytes, topic: str = "t", index: int = 0) -> None:
        """Send records in the transaction; with version 1, add the partition first."""
        if not self.is_v2:
            assert await self.add(topic, index) is ErrorCode.NONE
        assert await self.write(*values, topic=topic, index=index) is ErrorCode.NONE

    async def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[int, int],
        version: int | None = None,
        topic_id: Uuid = ZERO_UUID,
    ) -> list[ErrorCode]:
        """Commit offsets of topic ``t`` as a client that is not a member of the group.

        ``topic_id``: names the topic since version 6.
        """
        if version is None:
            version = V2_OFFSETS if self.is_v2 else V1_OFFSETS
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=partitions)],
        )
        response = await self.client.call(request, TxnOffsetCommitResponse, version)
        return [ErrorCode(each.error_code) for topic in response.topics for each in topic.partitions]

    async def add_offsets(self, group_id: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        return ErrorCode((await self.client.call(request, AddOffsetsToTxnResponse)).error_code)

    async def end(self, *, commit: bool) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = await self.client.call(request, EndTxnResponse, V2_END if self.is_v2 else V1_END)
        if self.is_v2 and not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()
        return ErrorCode(response.error_code)


async def write_marker(
    client: RawClient,
    producer_id: int,
    epoch: int,
    *,
    commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    topic: str = "t",
    index: int = 0,
    version: int = 2,
) -> ErrorCode:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version if version >= 2 else 0,
    )
    response = await client.call(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, version)
    (result,) = response.markers
    assert result.producer_id == producer_id
    return ErrorCode(result.topics[0].partitions[0].error_code)
