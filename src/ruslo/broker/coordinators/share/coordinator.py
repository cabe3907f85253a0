"""The share coordinator of this node: the shards of ``__share_group_state`` that it leads."""

from __future__ import annotations

import asyncio
import logging

from ruslo.broker.coordinators.runtime.coordinator import Coordinator
from ruslo.broker.coordinators.runtime.shard import CoordinatorShard
from ruslo.broker.coordinators.share.kind import share_kind
from ruslo.broker.coordinators.share.settings import share_coordinator_settings
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.share_coordinator.events import PruneLog, TopicsDeleted
from ruslo.machines.share_coordinator.responses import ShareRequest, joined, split
from ruslo.machines.share_coordinator.shard import ShareCoordinatorShard
from ruslo.model.clock import Clock
from ruslo.model.errors import KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message

logger = logging.getLogger(__name__)


class ShareCoordinator(Coordinator[ShareCoordinatorShard]):
    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataLoader,
        partitions: PartitionManager,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """Subscribe to the metadata; the partition manager must have done so before."""
        self._metadata = metadata
        settings = share_coordinator_settings(config)
        kind = share_kind(
            lambda: ShareCoordinatorShard(settings, self._exists),
            self._execute,
            commit_timeout_ms=config.int("share.coordinator.write.timeout.ms"),
            partition_count=config.int("share.coordinator.state.topic.num.partitions"),
            load_buffer_bytes=config.int("share.coordinator.load.buffer.size"),
            linger_ms=config.int("share.coordinator.append.linger.ms"),
            compression=config.int("share.coordinator.state.topic.compression.codec"),
        )
        super().__init__(kind, partitions, clock, scheduler)
        metadata.subscribe(self.apply)

    def submit(self, request: ShareRequest, api_version: int) -> Message | asyncio.Future[Message]:
        """Let the shard of each share-partition handle its part, and join the responses."""
        pending = [
            self.submit_to_shard(self.partition_of(str(key)), part, api_version, None)
            for key, part in split(request)
        ]
        if all(isinstance(each, Message) for each in pending):
            return joined(request, pending)
        return asyncio.ensure_future(_joined_later(request, pending))

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        super().apply(delta, image)
        if delta.deleted_topics:
            self.broadcast(TopicsDeleted(frozenset(delta.deleted_topics)))

    def _exists(self, topic_id: Uuid, partition: int | None) -> bool:
        topics = self._metadata.image.topics
        if partition is None:
            return topic_id in topics.by_id
        return topics.partition(topic_id, partition) is not None

    def _execute(self, shard: CoordinatorShard[ShareCoordinatorShard], effect: PruneLog) -> None:
        log = shard.partition.log
        offset = min(effect.offset, log.high_watermark)
        if offset <= log.start_offset:
            return
        try:
            # Followers delete when they fetch; that need not be awaited, because nothing depends on it.
            shard.partition.delete_records_before(offset)
        except KafkaError as error:
            logger.warning("%s: records before offset %d were not deleted: %s", shard, offset, error)


async def _joined_later(request: ShareRequest, pending: list[Message | asyncio.Future[Message]]) -> Message:
    return joined(request, [await each if isinstance(each, asyncio.Future) else each for each in pending])
