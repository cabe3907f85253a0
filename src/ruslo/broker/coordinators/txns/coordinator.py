"""This node's transaction coordinator: a shard for each partition of ``__transaction_state`` it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ruslo.broker.controller.producer_ids import ProducerIds
from ruslo.broker.coordinators.runtime.fan_out import all_answers, by_partition
from ruslo.broker.coordinators.runtime.led_shards import LedShards
from ruslo.broker.coordinators.txns.cluster_view import ImageClusterView
from ruslo.broker.coordinators.txns.markers import MarkerWriter
from ruslo.broker.coordinators.txns.settings import txn_settings
from ruslo.broker.coordinators.txns.shard_driver import TxnShardDriver
from ruslo.broker.metadata.broker_links import BrokerLinks
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataDriver
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.txn_verification import NO_NODE
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.feature_image import TRANSACTION_VERSION
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.groups.consumer.patterns import compile_pattern
from ruslo.machines.txns.events import ClusterChanged, MarkerSend, RequestInfo
from ruslo.machines.txns.marker_requests import MarkerCodes, request_of
from ruslo.machines.txns.refusals import refusal
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


class TransactionCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        dynamic_config: DynamicConfig,
        metadata: MetadataDriver,
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
        """Subscribes to the metadata; the partition manager must have done so before."""
        self._dynamic_config = dynamic_config
        self._metadata = metadata
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._markers = markers
        self._links = links
        self._clock = clock
        self._scheduler = scheduler
        self._node_id = node_id
        self._cluster = ImageClusterView(metadata, offsets_partition_of)
        self._commit_timeout_ms = config.int("request.timeout.ms")
        self._settings = self._current_settings()
        self._tasks: set[asyncio.Task[None]] = set()
        self._shards = LedShards(
            TRANSACTION_STATE_TOPIC,
            partitions,
            clock,
            self._make_shard,
            scheduler,
            content="transactions",
            partition_count=config.int("transaction.state.log.num.partitions"),
            load_buffer_bytes=config.int("transaction.state.log.load.buffer.size"),
        )
        dynamic_config.subscribe(lambda _: self._reconfigure())
        metadata.subscribe(self.apply)

    @property
    def settings(self) -> TxnSettings:
        return self._settings

    # -- requests --------------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        return self._shards.partition_of(transactional_id)

    def partitions(self) -> list[int]:
        """Those whose transactions this node answers for, or will once they are loaded."""
        return self._shards.answered_for()

    def is_active(self, partition: int) -> bool:
        """Whether this node has the partition's transactions loaded."""
        shard = self._shards.get(partition)
        return shard is not None and shard.active

    def submit(
        self, transactional_id: str, request: Message, api_version: int
    ) -> Message | asyncio.Future[Message]:
        """Have the id's shard answer; at once where it cannot be asked."""
        return self.submit_to(self.partition_of(transactional_id), request, api_version)

    def submit_to(
        self, partition: int, request: Message, api_version: int
    ) -> Message | asyncio.Future[Message]:
        shard = self._shards.serving(partition)
        if isinstance(shard, ErrorCode):
            return refusal(request, api_version, shard)
        return shard.submit(request, RequestInfo(api_version))

    # -- the way of partition leaders to coordinators --------------------------------------------------------

    def node_of(self, transactional_id: str) -> int:
        topic = self._metadata.image.topics.by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return NO_NODE
        return topic.partitions[self.partition_of(transactional_id)].leader

    def verify_locally(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode | None:
        """Whether the partition is part of the open transaction; None if this node cannot say."""
        shard = self._shards.serving(self.partition_of(transactional_id))
        if isinstance(shard, ErrorCode):
            return None
        return shard.shard.verify(transactional_id, producer_id, epoch, partition)

    def add_partitions(
        self, node: int, request: AddPartitionsToTxnRequest
    ) -> Message | asyncio.Future[Message]:
        if node != self._node_id:
            return self._links.request(node, request, AddPartitionsToTxnResponse)
        return self.add_partitions_here(request, ADD_PARTITIONS_VERSION)

    def add_partitions_here(
        self, request: AddPartitionsToTxnRequest, api_version: int
    ) -> Message | asyncio.Future[Message]:
        """Several transactions in one request (v4+): each is its own shard's business."""
        parts = by_partition(self, request.transactions, lambda each: each.transactional_id)
        pending = [
            self.submit_to(partition, AddPartitionsToTxnRequest(transactions=asked), api_version)
            for partition, asked in parts.items()
        ]
        if len(pending) == 1:
            return pending[0]
        return asyncio.ensure_future(_merged(pending))

    # -- following the metadata ------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if TRANSACTION_VERSION in delta.changed_features:
            self._reconfigure()
        self._shards.follow(delta, image)
        if delta.deleted_topics or delta.changed_partitions or delta.created_topics:
            for shard in self._shards:
                if shard.active:
                    try:
                        shard.run(ClusterChanged(self._cluster))
                    except Exception:
                        # The other shards must hear of it all the same.
                        logger.exception(
                            "%s-%d: leaders changed", shard.partition.topic, shard.partition.index
                        )

    def _current_settings(self) -> TxnSettings:
        level = self._metadata.image.features.level(TRANSACTION_VERSION)
        return txn_settings(self._dynamic_config.current, level)

    def _reconfigure(self) -> None:
        self._settings = self._current_settings()
        for shard in self._shards:
            shard.shard.change_settings(self._settings)

    # -- shards ----------------------------------------------------------------------------------------------

    def _make_shard(self, partition: Partition) -> TxnShardDriver:
        return TxnShardDriver(
            TxnShard(self._settings, compile_pattern, self._cluster),
            partition,
            self._clock,
            self._scheduler,
            commit_timeout_ms=self._commit_timeout_ms,
            send_markers=self._send_markers,
            get_producer_id=self._get_producer_id,
            on_storage_error=self._partitions.storage_failed,
        )

    def _send_markers(
        self, send: MarkerSend
    ) -> MarkerCodes | asyncio.Future[MarkerCodes] | asyncio.Future[Message]:
        if send.node == self._node_id:
            return self._markers.write(send.markers)
        return self._links.request(send.node, request_of(send.markers), WriteTxnMarkersResponse)

    def _get_producer_id(self, give: Callable[[int | None], None]) -> None:
        producer_id = self._producer_ids.take()
        if producer_id is not None:
            give(producer_id)
            return
        task = asyncio.get_running_loop().create_task(self._wait_for_producer_id(give))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait_for_producer_id(self, give: Callable[[int | None], None]) -> None:
        try:
            producer_id = await self._producer_ids.generate()
        except KafkaError as error:
            logger.warning("no producer id for a transaction: %s", error)
            give(None)
        else:
            give(producer_id)

    async def stop(self) -> None:
        """Answer whoever waits."""
        await self._shards.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _merged(pending: Sequence[Message | asyncio.Future[Message]]) -> Message:
    answers = await all_answers(pending, AddPartitionsToTxnResponse)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[result for answer in answers for result in answer.results_by_transaction]
    )
