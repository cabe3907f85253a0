"""The transaction coordinator of this node: the shards of ``__transaction_state`` that it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ruslo.broker.controller.producer_ids import ProducerIds
from ruslo.broker.coordinators.runtime.coordinator import Coordinator
from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.coordinators.runtime.shard import CoordinatorShard
from ruslo.broker.coordinators.txns.cluster_view import ImageClusterView
from ruslo.broker.coordinators.txns.kind import txn_kind
from ruslo.broker.coordinators.txns.markers import MarkerWriter
from ruslo.broker.coordinators.txns.settings import txn_settings
from ruslo.broker.metadata.broker_links import BrokerLinks
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.txn_verification import NO_NODE
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.feature_image import TRANSACTION_VERSION
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.groups.consumer.patterns import compile_pattern
from ruslo.machines.txns.events import (
    AllocateProducerId,
    ClusterChanged,
    MarkersResult,
    ProducerIdAllocated,
    RequestInfo,
    SendMarkers,
    TxnEffect,
)
from ruslo.machines.txns.marker_requests import MarkerCodes, codes_of, request_of
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.shard import TxnShard
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TRANSACTION_STATE_TOPIC, TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

logger = logging.getLogger(__name__)

ADD_PARTITIONS_VERSION = 5

Shard: TypeAlias = CoordinatorShard[TxnShard]


class TransactionCoordinator(Coordinator[TxnShard]):
    def __init__(
        self,
        config: BrokerConfig,
        dynamic_config: DynamicConfig,
        metadata: MetadataLoader,
        partitions: PartitionManager,
        producer_ids: ProducerIds,
        markers: MarkerWriter,
        links: BrokerLinks,
        clock: Clock,
        scheduler: Scheduler,
        *,
        node_id: int,
        offsets_partition_of: Callable[[str], int],
    ) -> None:
        """Subscribe to the metadata; the partition manager must have done so before."""
        self._dynamic_config = dynamic_config
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._markers = markers
        self._links = links
        self._node_id = node_id
        self._cluster = ImageClusterView(metadata, offsets_partition_of)
        self.settings = self._current_settings()
        self._tasks = BackgroundTasks()
        kind = txn_kind(
            lambda: TxnShard(self.settings, compile_pattern, self._cluster),
            self._execute,
            commit_timeout_ms=config.int("request.timeout.ms"),
            partition_count=config.int("transaction.state.log.num.partitions"),
            load_buffer_bytes=config.int("transaction.state.log.load.buffer.size"),
        )
        super().__init__(kind, partitions, clock, scheduler)
        dynamic_config.subscribe(lambda _: self._reconfigure())
        metadata.subscribe(self.apply)

    # -- requests --------------------------------------------------------------------------------------------

    def submit(
        self, transactional_id: str, request: Message, api_version: int
    ) -> Message | asyncio.Future[Message]:
        """Let the id's shard handle a request, or respond with the reason why it cannot."""
        return self.submit_to(self.partition_of(transactional_id), request, api_version)

    def submit_to(
        self, partition: int, request: Message, api_version: int
    ) -> Message | asyncio.Future[Message]:
        return self.submit_to_shard(partition, request, api_version, RequestInfo(api_version))

    # -- requests of partition leaders -----------------------------------------------------------------------

    def node_of(self, transactional_id: str) -> int:
        """The node that coordinates the transactional id."""
        topic = self._metadata.image.topics.by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return NO_NODE
        return topic.partitions[self.partition_of(transactional_id)].leader

    def verify_locally(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode | None:
        """Verify that the partition is in the ongoing transaction; None if this node is not coordinator."""
        shard = self.serving(self.partition_of(transactional_id))
        if isinstance(shard, ErrorCode):
            return None
        return shard.machine.verify(transactional_id, producer_id, epoch, partition)

    def add_partitions(
        self, node: int, request: AddPartitionsToTxnRequest
    ) -> Message | asyncio.Future[Message]:
        if node != self._node_id:
            return self._links.request(node, request, AddPartitionsToTxnResponse)
        return self.add_partitions_here(request, ADD_PARTITIONS_VERSION)

    def add_partitions_here(
        self, request: AddPartitionsToTxnRequest, api_version: int
    ) -> Message | asyncio.Future[Message]:
        """Handle a request with several transactions (v4+), each in its own shard."""
        parts = by_partition(self, request.transactions, lambda each: each.transactional_id)
        pending = [
            self.submit_to(partition, AddPartitionsToTxnRequest(transactions=transactions), api_version)
            for partition, transactions in parts.items()
        ]
        if len(pending) == 1:
            return pending[0]
        return asyncio.ensure_future(_merged(pending))

    # -- metadata --------------------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if TRANSACTION_VERSION in delta.changed_features:
            self._reconfigure()
        super().apply(delta, image)
        if delta.deleted_topics or delta.changed_partitions or delta.created_topics:
            self.broadcast(ClusterChanged(self._cluster))

    def _current_settings(self) -> TxnSettings:
        level = self._metadata.image.features.level(TRANSACTION_VERSION)
        return txn_settings(self._dynamic_config.current, level)

    def _reconfigure(self) -> None:
        self.settings = self._current_settings()
        for machine in self.machines():
            machine.change_settings(self.settings)

    # -- effects ---------------------------------------------------------------------------------------------

    def _execute(self, shard: Shard, effect: TxnEffect) -> None:
        if isinstance(effect, SendMarkers):
            self._send_markers(shard, effect)
        elif isinstance(effect, AllocateProducerId):
            self._allocate_producer_id(shard, effect.allocation)
        elif effect.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.error(
                "Transaction %r is prepared, but a partition with a newer coordinator epoch rejects its "
                "marker. The transaction stays incomplete until %s has another leader.",
                effect.transactional_id,
                shard,
            )
        else:
            logger.error(
                "Completed transaction %r without a marker that a partition rejects because it knows a newer "
                "producer epoch: %s lost records. 'ruslo txn find-hanging' shows what may be open there.",
                effect.transactional_id,
                shard,
            )

    def _send_markers(self, shard: Shard, send: SendMarkers) -> None:
        codes: MarkerCodes | asyncio.Future[MarkerCodes] | asyncio.Future[Message]
        if send.node == self._node_id:
            codes = self._markers.write(send.markers)
        else:
            codes = self._links.request(send.node, request_of(send.markers), WriteTxnMarkersResponse)
        if isinstance(codes, asyncio.Future):
            codes.add_done_callback(lambda done: shard.handle(markers_result(send.send_id, done)))
        else:
            shard.handle(MarkersResult(send.send_id, codes))

    def _allocate_producer_id(self, shard: Shard, allocation: int) -> None:
        producer_id = self._producer_ids.take()
        if producer_id is not None:
            shard.handle(ProducerIdAllocated(allocation, producer_id))
        else:
            self._tasks.start(self._wait_for_producer_id(shard, allocation))

    async def _wait_for_producer_id(self, shard: Shard, allocation: int) -> None:
        producer_id = None
        try:
            producer_id = await self._producer_ids.generate()
        except KafkaError as error:
            logger.warning("Allocating a producer id for a transaction failed: %s", error)
        shard.handle(ProducerIdAllocated(allocation, producer_id))

    async def stop(self) -> None:
        """Fail waiting requests."""
        await super().stop()
        await self._tasks.stop()


def markers_result(
    send_id: int, done: asyncio.Future[MarkerCodes] | asyncio.Future[Message]
) -> MarkersResult:
    """The result of markers. It is unknown whether they are written if the request failed."""
    if done.cancelled() or done.exception() is not None:
        return MarkersResult(send_id, None)
    codes = done.result()
    if isinstance(codes, Message):
        assert isinstance(codes, WriteTxnMarkersResponse)
        codes = codes_of(codes)
    return MarkersResult(send_id, codes)


async def _merged(pending: Sequence[Message | asyncio.Future[Message]]) -> Message:
    responses = await all_responses(pending, AddPartitionsToTxnResponse)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[result for each in responses for result in each.results_by_transaction]
    )
