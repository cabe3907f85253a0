"""The group coordinator of this node: a shard for each partition of ``__consumer_offsets`` that it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ruslo.broker.coordinators.groups.asks import Asks
from ruslo.broker.coordinators.groups.assignor_loader import load_assignors
from ruslo.broker.coordinators.groups.assignor_runner import AssignorRunner
from ruslo.broker.coordinators.groups.settings import group_settings
from ruslo.broker.coordinators.groups.shard_driver import ShardDriver, WriteSettings
from ruslo.broker.coordinators.groups.topics_view import ImageTopicsView, changed_topics
from ruslo.broker.coordinators.runtime.led_shards import LedShards
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataDriver
from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Scheduler
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
from ruslo.machines.groups.state import ShardState
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import GROUP_OFFSETS_TOPIC
from ruslo.protocol.message import Message
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest

logger = logging.getLogger(__name__)

_CONSUMER_GROUP_REQUESTS = (ConsumerGroupHeartbeatRequest, ConsumerGroupDescribeRequest)


class GroupCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        dynamic_config: DynamicConfig,
        metadata: MetadataDriver,
        partitions: PartitionManager,
        clock: Clock,
        scheduler: Scheduler,
        *,
        has_session: Callable[[], bool],
        new_uuid: Callable[[], Uuid],
    ) -> None:
        """Subscribes to the metadata; the partition manager must have done so before.

        ``has_session``: whether the controller cannot have fenced this broker without its knowing.
        Raises ConfigError when an assignor cannot be loaded.
        """
        self._dynamic_config = dynamic_config
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._scheduler = scheduler
        self._has_session = has_session
        self._new_uuid = new_uuid
        self._topics = ImageTopicsView(metadata)
        names = config.list("group.consumer.assignors")
        runner = AssignorRunner(load_assignors(names), config.int("ruslo.group.assignor.timeout.ms"))
        self._asks = Asks(runner, partitions, self._topics, clock, scheduler)
        self._assignors = InlineAssignors()
        self._write_settings = WriteSettings(
            commit_timeout_ms=config.int("offsets.commit.timeout.ms"),
            codec=config.int("offsets.topic.compression.codec"),
            linger_ms=config.int("group.coordinator.append.linger.ms"),
        )
        self._settings = self._current_settings()
        self._shards = LedShards(
            GROUP_OFFSETS_TOPIC,
            partitions,
            clock,
            self._make_shard,
            scheduler,
            content="groups",
            partition_count=config.int("offsets.topic.num.partitions"),
            load_buffer_bytes=config.int("offsets.load.buffer.size"),
        )
        dynamic_config.subscribe(lambda _: self._reconfigure())
        metadata.subscribe(self.apply)

    # -- requests --------------------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        return self._shards.partition_of(group_id)

    def submit(
        self, group_id: str, request: Message, context: RequestContext
    ) -> Message | asyncio.Future[Message]:
        """Have the group's shard answer; at once where it cannot be asked."""
        return self.submit_to(self.partition_of(group_id), request, context)

    def submit_to(
        self, partition: int, request: Message, context: RequestContext
    ) -> Message | asyncio.Future[Message]:
        if isinstance(request, _CONSUMER_GROUP_REQUESTS) and not self._settings.has_consumer_groups:
            # Any broker says so, as Kafka's do: the client need not look for a coordinator.
            return refusal(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION)
        shard = self._shards.serving(partition)
        if isinstance(shard, ErrorCode):
            return refusal(request, context.api_version, shard)
        if isinstance(request, OffsetFetchRequest) and not self._may_tell_offsets(shard.partition):
            return refusal(request, context.api_version, ErrorCode.NOT_COORDINATOR)
        info = RequestInfo(context.api_version, context.client_id or "", f"/{context.peer_host}")
        return shard.submit(request, info)

    def _may_tell_offsets(self, partition: Partition) -> bool:
        """What is written waits for the in-sync replicas, but nobody is asked about offsets that are known.

        If this node is cut off there may be another coordinator by now. Whoever begins at an old offset
        processes twice what was committed there, be it in a transaction.
        """
        return not partition.has_followers or self._has_session()

    def append_marker(self, index: int, marker: bytearray, transaction_version: int) -> Appended:
        """Write a transaction's end into a partition of ``__consumer_offsets``; raises KafkaError."""
        shard = self._shards.serving(index)
        if isinstance(shard, ErrorCode):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition's groups are not loaded here")
        return shard.append_marker(marker, transaction_version)

    def partitions(self) -> list[int]:
        """Those whose groups this node answers for, or will once they are loaded."""
        return self._shards.answered_for()

    def is_active(self, partition: int) -> bool:
        """Whether this node has the partition's groups loaded."""
        shard = self._shards.get(partition)
        return shard is not None and shard.active

    def shard_of(self, group_id: str) -> GroupShard | None:
        """The machine that decides for the group, if it is here and loaded."""
        shard = self._shards.get(self.partition_of(group_id))
        return shard.shard if shard is not None and shard.active else None

    def states(self) -> list[ShardState]:
        """What this node knows of the groups it answers for, shard by shard; to look at, not to change."""
        return [shard.shard.state for shard in self._shards if shard.active]

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
        self._shards.follow(delta, image)
        changed = changed_topics(delta, image)
        if changed:
            deleted = frozenset(topic.name for topic in delta.deleted_topics.values())
            event = MetadataChanged(self._topics, changed, deleted)
            for shard in self._shards:
                if shard.active:
                    try:
                        shard.run(event)
                    except Exception:
                        # The other shards must hear of it all the same.
                        logger.exception("%s-%d: topics changed", GROUP_OFFSETS_TOPIC, shard.partition.index)

    def _current_settings(self) -> GroupSettings:
        return group_settings(
            self._dynamic_config.current,
            self._metadata.image.features.level(GROUP_VERSION),
            lambda group_id: self._metadata.image.configs.of(GROUP, group_id),
        )

    def _reconfigure(self) -> None:
        self._settings = self._current_settings()
        for shard in self._shards:
            shard.shard.state.settings = self._settings

    # -- shards ----------------------------------------------------------------------------------------------

    def _make_shard(self, partition: Partition) -> ShardDriver:
        return ShardDriver(
            GroupShard(self._settings, self._assignors, self._topics, self._new_uuid),
            partition,
            self._clock,
            self._write_settings,
            self._scheduler,
            on_ask=self._asks.ask,
            on_storage_error=self._partitions.storage_failed,
            on_broken=self._shards.reload,
        )

    async def stop(self) -> None:
        """Write what is gathered and answer whoever waits."""
        await self._shards.stop()
        await self._asks.stop()
