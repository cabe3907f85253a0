"""The group coordinator of this node: the shards of ``__consumer_offsets`` that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ruslo.broker.coordinators.groups.assignor_loader import load_assignors
from ruslo.broker.coordinators.groups.assignor_runner import AssignorRunner
from ruslo.broker.coordinators.groups.kind import group_kind
from ruslo.broker.coordinators.groups.queries import GroupQueries
from ruslo.broker.coordinators.groups.settings import group_settings
from ruslo.broker.coordinators.groups.share_states import ShareStates
from ruslo.broker.coordinators.groups.topics_view import ImageTopicsView, changed_topics
from ruslo.broker.coordinators.runtime.coordinator import Coordinator
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.broker.security.authorization import Authorization
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.config_image import GROUP
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.feature_image import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.ports import InlineAssignors
from ruslo.machines.groups.errors import error_response
from ruslo.machines.groups.events import MetadataChanged, RequestInfo
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.configured_topology import InternalTopic
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.internal_topics import missing_internal_topics
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ruslo.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

_CONSUMER_GROUP_REQUESTS = (ConsumerGroupHeartbeatRequest, ConsumerGroupDescribeRequest)
_SHARE_GROUP_REQUESTS = (
    ShareGroupHeartbeatRequest,
    ShareGroupDescribeRequest,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
)
_STREAMS_GROUP_REQUESTS = (
    StreamsGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
)


def share_groups_disabled() -> KafkaError:
    return KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        "Share groups are disabled. Upgrade the feature share.version: "
        "ruslo cluster features upgrade --feature share.version=1",
    )


class GroupCoordinator(Coordinator[GroupShard]):
    def __init__(
        self,
        config: BrokerConfig,
        dynamic_config: DynamicConfig,
        metadata: MetadataLoader,
        partitions: PartitionManager,
        clock: Clock,
        scheduler: Scheduler,
        *,
        share_states: ShareStates,
        has_session: Callable[[], bool],
        new_uuid: Callable[[], Uuid],
        authorization: Authorization | None = None,
    ) -> None:
        """Subscribe to the metadata; the partition manager must have done so before.

        ``has_session``: whether the broker's session is alive, so the controller has not fenced it.
        Raises ConfigError when an assignor cannot be loaded.
        """
        self._dynamic_config = dynamic_config
        self._metadata = metadata
        self._has_session = has_session
        self._topics = ImageTopicsView(metadata)
        names = config.list("group.consumer.assignors")
        runner = AssignorRunner(load_assignors(names), config.int("ruslo.group.assignor.timeout.ms"))
        self._queries = GroupQueries(
            runner, partitions, self._topics, clock, scheduler, share_states, authorization
        )
        self._assignors = InlineAssignors()
        self._settings = self._current_settings()
        kind = group_kind(
            lambda: GroupShard(self._settings, self._assignors, self._topics, new_uuid),
            self._queries.execute,
            commit_timeout_ms=config.int("offsets.commit.timeout.ms"),
            partition_count=config.int("offsets.topic.num.partitions"),
            load_buffer_bytes=config.int("offsets.load.buffer.size"),
            linger_ms=config.int("group.coordinator.append.linger.ms"),
            compression=config.int("offsets.topic.compression.codec"),
        )
        super().__init__(kind, partitions, clock, scheduler)
        dynamic_config.subscribe(lambda _: self._reconfigure())
        metadata.subscribe(self.apply)

    # -- requests --------------------------------------------------------------------------------------------

    def submit(
        self, group_id: str, request: Message, context: RequestContext
    ) -> Message | asyncio.Future[Message]:
        """Let the group's shard handle a request, or respond with the reason why it cannot."""
        return self.submit_to(self.partition_of(group_id), request, context)

    def submit_to(
        self, partition: int, request: Message, context: RequestContext
    ) -> Message | asyncio.Future[Message]:
        version = context.api_version
        if isinstance(request, _CONSUMER_GROUP_REQUESTS) and not self._settings.has_consumer_groups:
            # Any broker responds so, as in Kafka: the client need not find the coordinator.
            return error_response(request, version, ErrorCode.UNSUPPORTED_VERSION)
        if isinstance(request, _STREAMS_GROUP_REQUESTS) and not self._settings.has_streams_groups:
            return error_response(request, version, ErrorCode.UNSUPPORTED_VERSION)
        if isinstance(request, _SHARE_GROUP_REQUESTS) and not self._settings.has_share_groups:
            return error_response(request, version, ErrorCode.UNSUPPORTED_VERSION)
        if isinstance(request, OffsetFetchRequest) and not self._may_read_offsets(partition):
            return error_response(request, version, ErrorCode.NOT_COORDINATOR)
        info = RequestInfo(version, context.client_id or "", f"/{context.peer_host}", context.principal)
        return self.submit_to_shard(partition, request, version, info)

    def require_share_groups(self) -> None:
        """Raise KafkaError if the cluster's ``share.version`` disables share groups."""
        if not self._settings.has_share_groups:
            raise share_groups_disabled()

    def _may_read_offsets(self, index: int) -> bool:
        """Whether this node is surely the coordinator.

        A write waits for the in-sync replicas, but a read of committed offsets does not. If this node is
        partitioned from the cluster, another coordinator may have newer offsets, and a consumer that starts
        at an old one processes records again that were committed, possibly in a transaction.
        """
        shard = self.get(index)
        return shard is None or not shard.active or not shard.partition.has_followers or self._has_session()

    def append_marker(self, index: int, marker: bytearray, transaction_version: int) -> Appended:
        """Append a transaction marker to a partition of ``__consumer_offsets``; raises KafkaError."""
        shard = self.serving(index)
        if isinstance(shard, ErrorCode):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition's groups are not loaded here")
        return shard.append_marker(marker, transaction_version)

    def shard_of(self, group_id: str) -> GroupShard | None:
        """The machine of the group, if this node coordinates it and has loaded it."""
        shard = self.get(self.partition_of(group_id))
        return shard.machine if shard is not None and shard.active else None

    def states(self) -> list[ShardState]:
        """The states of the loaded shards, for reading only."""
        return [machine.state for machine in self.active_machines()]

    def assignor_error(self, group_id: str) -> str | None:
        """The failure of the group's last assignment; None if it succeeded."""
        shard = self.shard_of(group_id)
        group = None if shard is None else shard.state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup | StreamsGroup) or group.failure is None:
            return None
        return f"{group.failure.assignor} {group.failure.message}"

    def missing_internal_topics(self, group_id: str) -> tuple[InternalTopic, ...]:
        """The internal topics that a streams group waits for."""
        shard = self.shard_of(group_id)
        return () if shard is None else missing_internal_topics(shard.state, group_id)

    # -- metadata --------------------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._topics.forget(delta)
        if not {GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION}.isdisjoint(delta.changed_features):
            self._reconfigure()
        super().apply(delta, image)
        changed = changed_topics(delta, image)
        if changed:
            deleted = frozenset(topic.name for topic in delta.deleted_topics.values())
            self.broadcast(MetadataChanged(self._topics, changed, deleted, frozenset(delta.deleted_topics)))

    def _current_settings(self) -> GroupSettings:
        return group_settings(
            self._dynamic_config.current,
            self._metadata.image.features.level(GROUP_VERSION),
            self._metadata.image.features.level(STREAMS_VERSION),
            lambda group_id: self._metadata.image.configs.of(GROUP, group_id),
            share_version=self._metadata.image.features.level(SHARE_VERSION),
        )

    def _reconfigure(self) -> None:
        self._settings = self._current_settings()
        for machine in self.machines():
            machine.change_settings(self._settings)

    async def stop(self) -> None:
        """Append what is collected and fail waiting requests."""
        await super().stop()
        await self._queries.stop()
