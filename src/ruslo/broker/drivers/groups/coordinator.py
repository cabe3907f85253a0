"""All group shards of this node: one for each partition of ``__consumer_offsets`` that it leads.

Leadership comes and goes with the metadata. A shard that has become ours is loaded first, one shard after the
other, since fifty at once would each take their share of every turn of the loop; meanwhile its clients are
told to wait. A log that cannot be replayed refuses its groups instead of serving half of them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque

from ruslo.broker.drivers.dynamic_config import DynamicConfig
from ruslo.broker.drivers.groups.asks import Asks
from ruslo.broker.drivers.groups.assignor_loader import load_assignors
from ruslo.broker.drivers.groups.assignor_runner import AssignorRunner
from ruslo.broker.drivers.groups.loading import load
from ruslo.broker.drivers.groups.placement import partition_of
from ruslo.broker.drivers.groups.settings import group_settings
from ruslo.broker.drivers.groups.shard_driver import ShardDriver, WriteSettings
from ruslo.broker.drivers.groups.topics_view import ImageTopicsView, changed_topics
from ruslo.broker.drivers.groups.turns import Turns
from ruslo.broker.drivers.metadata import MetadataDriver
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.request_context import RequestContext
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.config_image import GROUP
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.feature_image import GROUP_VERSION
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.ports import InlineAssignors
from ruslo.machines.groups.events import MetadataChanged, RequestInfo
from ruslo.machines.groups.refusals import refusal
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.shard import GroupShard
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, RusloError
from ruslo.model.topics import GROUP_OFFSETS_TOPIC
from ruslo.protocol.message import Message

logger = logging.getLogger(__name__)


class GroupCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        dynamic_config: DynamicConfig,
        metadata: MetadataDriver,
        partitions: PartitionManager,
        clock: Clock,
    ) -> None:
        """Subscribes to the metadata; the partition manager must have done so before.

        Raises ConfigError when an assignor cannot be loaded.
        """
        self._dynamic_config = dynamic_config
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._topics = ImageTopicsView(metadata)
        names = config.list("group.consumer.assignors")
        runner = AssignorRunner(load_assignors(names), config.int("ruslo.group.assignor.timeout.ms"))
        self._asks = Asks(runner, partitions, self._topics, clock)
        self._assignors = InlineAssignors()
        self._load_buffer_bytes = config.int("offsets.load.buffer.size")
        self._write_settings = WriteSettings(
            commit_timeout_ms=config.int("offsets.commit.timeout.ms"),
            codec=config.int("offsets.topic.compression.codec"),
            linger_ms=config.int("group.coordinator.append.linger.ms"),
        )
        self._turns = Turns()
        self._settings = self._current_settings()
        self._shards: dict[int, ShardDriver] = {}
        self._partition_count = config.int("offsets.topic.num.partitions")
        self._to_load: deque[ShardDriver] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._stopped = False
        dynamic_config.subscribe(lambda _: self._reconfigure())
        metadata.subscribe(self.apply)

    # -- requests --------------------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        return partition_of(group_id, self._partition_count)

    def submit(
        self, group_id: str, request: Message, context: RequestContext
    ) -> Message | asyncio.Future[Message]:
        """Have the group's shard answer; at once where it cannot be asked."""
        return self.submit_to(self.partition_of(group_id), request, context)

    def submit_to(
        self, partition: int, request: Message, context: RequestContext
    ) -> Message | asyncio.Future[Message]:
        shard = self._shards.get(partition)
        if shard is None or not shard.partition.is_leader:
            return refusal(request, context.api_version, ErrorCode.NOT_COORDINATOR)
        if not shard.active:
            return refusal(request, context.api_version, shard.refusal)
        info = RequestInfo(context.api_version, context.client_id or "", f"/{context.peer_host}")
        return shard.submit(request, info)

    def partitions(self) -> list[int]:
        """Those whose groups this node answers for, or will once they are loaded."""
        return [
            index
            for index, shard in self._shards.items()
            if shard.active or shard.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ]

    def is_active(self, partition: int) -> bool:
        """Whether this node has the partition's groups loaded."""
        shard = self._shards.get(partition)
        return shard is not None and shard.active

    def shard_of(self, group_id: str) -> GroupShard | None:
        """The machine that decides for the group, if it is here and loaded."""
        shard = self._shards.get(self.partition_of(group_id))
        return shard.shard if shard is not None and shard.active else None

    def assignor_error(self, group_id: str) -> str | None:
        """What went wrong when the group's partitions were last assigned; None if nothing did."""
        shard = self.shard_of(group_id)
        group = None if shard is None else shard.state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or group.failure is None:
            return None
        return f"{group.failure.assignor} {group.failure.message}"

    # -- following the metadata ------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._topics.forget(delta)
        if GROUP_VERSION in delta.changed_features:
            self._reconfigure()
        self._follow_leadership(delta, image)
        changed = changed_topics(delta, image)
        if changed:
            deleted = frozenset(topic.name for topic in delta.deleted_topics.values())
            event = MetadataChanged(self._topics, changed, deleted)
            for shard in list(self._shards.values()):
                if shard.active:
                    try:
                        shard.run(event)
                    except Exception:
                        # The other shards must hear of it all the same.
                        logger.exception("%s-%d: topics changed", GROUP_OFFSETS_TOPIC, shard.partition.index)

    def _follow_leadership(self, delta: MetadataDelta, image: MetadataImage) -> None:
        topic = image.topics.by_name.get(GROUP_OFFSETS_TOPIC)
        if topic is not None:
            if topic.id not in delta.created_topics and topic.id not in delta.changed_partitions:
                return
            self._partition_count = len(topic.partitions)
        here = self._partitions.by_name.get(GROUP_OFFSETS_TOPIC, {})
        led = {index: partition for index, partition in here.items() if partition.is_leader}
        for index, shard in list(self._shards.items()):
            if led.get(index) is not shard.partition:
                self._unload(index)
        for index, partition in led.items():
            if index not in self._shards:
                self._begin_load(index, partition)

    def _current_settings(self) -> GroupSettings:
        return group_settings(
            self._dynamic_config.current,
            self._metadata.image.features.level(GROUP_VERSION),
            lambda group_id: self._metadata.image.configs.of(GROUP, group_id),
        )

    def _reconfigure(self) -> None:
        self._settings = self._current_settings()
        for shard in self._shards.values():
            shard.shard.state.settings = self._settings

    # -- loading and unloading -------------------------------------------------------------------------------

    def _begin_load(self, index: int, partition: Partition) -> None:
        if self._stopped:
            return
        shard = ShardDriver(
            GroupShard(self._settings, self._assignors, self._topics),
            partition,
            self._clock,
            self._write_settings,
            self._turns,
            on_ask=self._asks.ask,
            on_storage_error=self._partitions.storage_failed,
            on_broken=self._reload,
        )
        self._shards[index] = shard
        if partition.log.start_offset == partition.log.end_offset:
            shard.activate()
            return
        self._to_load.append(shard)
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_all())

    async def _load_all(self) -> None:
        # What is loaded stays: looking for garbage among it again and again would stop the loop for longer
        # than anything else here, and so would every later collection unless it is told to pass it over.
        collects = gc.isenabled()
        gc.disable()
        try:
            while self._to_load:
                await self._load(self._to_load.popleft())
        finally:
            self._loading = None
            gc.freeze()
            if collects:
                gc.enable()

    async def _load(self, shard: ShardDriver) -> None:
        partition = shard.partition
        began_ms = self._clock.monotonic_ms()

        def still_wanted() -> bool:
            return not shard.closed and not partition.gone

        try:
            count = await load(shard.shard, partition, self._load_buffer_bytes, still_wanted)
            if not still_wanted():
                return
            shard.activate()
        except Exception as error:
            # Whatever it is, the groups in there are not known: serving the rest would lose their offsets.
            shard.close()
            logger.error(
                "%s-%d cannot be loaded, its groups are refused until this node starts again: %s",
                partition.topic,
                partition.index,
                error,
                exc_info=None if isinstance(error, RusloError) else error,
            )
            return
        took_ms = self._clock.monotonic_ms() - began_ms
        logger.info("%s-%d: loaded %d records in %d ms", partition.topic, partition.index, count, took_ms)

    def _unload(self, index: int) -> None:
        self._shards.pop(index).close()

    def _reload(self, broken: ShardDriver) -> None:
        """The shard closed itself because its log could not be written."""
        index = broken.partition.index
        if self._shards.get(index) is broken:
            del self._shards[index]
            if broken.partition.is_leader and not broken.partition.gone:
                self._begin_load(index, broken.partition)

    async def stop(self) -> None:
        """Write what is gathered and answer whoever waits."""
        self._stopped = True
        for index in list(self._shards):
            self._unload(index)
        self._to_load.clear()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        await self._asks.stop()
