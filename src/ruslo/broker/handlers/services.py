"""The parts of a running node that handlers use, wired by ``node``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.session import ClientSession
from ruslo.broker.security.authorization import Authorization, access_of
from ruslo.machines.quota import ClientQuotas
from ruslo.model.clock import Clock
from ruslo.model.principals import Principal
from ruslo.protocol.apis import Api
from ruslo.protocol.message import Message

if TYPE_CHECKING:
    from ruslo.broker.controller.gateway import ControllerGateway
    from ruslo.broker.controller.liveness_probes import LivenessProbes
    from ruslo.broker.controller.producer_ids import ProducerIds
    from ruslo.broker.coordinators.groups.coordinator import GroupCoordinator
    from ruslo.broker.coordinators.groups.internal_topics import InternalTopicCreator
    from ruslo.broker.coordinators.groups.share_offsets import ShareOffsets
    from ruslo.broker.coordinators.runtime.internal_topic import InternalTopic
    from ruslo.broker.coordinators.share.coordinator import ShareCoordinator
    from ruslo.broker.coordinators.txns.coordinator import TransactionCoordinator
    from ruslo.broker.coordinators.txns.markers import MarkerWriter
    from ruslo.broker.coordinators.txns.offset_commits import TransactionalOffsetCommits
    from ruslo.broker.metadata.dynamic_config import DynamicConfig
    from ruslo.broker.metadata.loader import MetadataLoader
    from ruslo.broker.metadata.topic_responses import TopicResponses
    from ruslo.broker.partitions.log_dir_moves import LogDirMoves
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.broker.quorum.raft import RaftDriver
    from ruslo.broker.scheduling.scheduler import Scheduler
    from ruslo.broker.security.audit_log import AuditLog
    from ruslo.broker.security.authentication import Authentication
    from ruslo.broker.share_partitions.manager import SharePartitionManager
    from ruslo.broker.telemetry.client_telemetry import ClientTelemetry
    from ruslo.config.broker import BrokerConfig
    from ruslo.storage.log_manager import LogManager
    from ruslo.storage.lost_data import LostDataList


Response: TypeAlias = Message | Awaitable[Message]
# Each handler has its own types of services, request and response.
Handler: TypeAlias = Callable[[Any, Any, RequestContext], Any]


@dataclass(frozen=True, slots=True)
class ApiCatalog:
    """The APIs of one kind of listener."""

    announced: tuple[Api, ...]
    """APIs that ApiVersions lists."""
    handlers: Mapping[int, Handler]
    """Handlers by API key. The broker's Produce and Fetch are not among them."""


class ControllerPort(Protocol):
    """The active controller: this node's own or, for a broker, the one that the gateway finds."""

    @property
    def committed_offset(self) -> int:
        """The metadata offset that contains every change responded to so far."""
        ...

    def submit(
        self, request: Message, context: RequestContext | None = None, *, timeout_ms: int = 0
    ) -> asyncio.Future[Message]: ...


@dataclass(slots=True)
class NodeServices:
    """What every role has."""

    config: BrokerConfig
    """The configuration at the start of the node; ``dynamic_config.current`` has later changes."""
    node_id: int
    cluster_id: str
    clock: Clock
    scheduler: Scheduler
    metadata: MetadataLoader
    controller: ControllerPort
    raft: RaftDriver
    dynamic_config: DynamicConfig
    assignor_error: Callable[[str], str | None]
    """Why the last assignment of a group failed; None if it succeeded or the group is unknown here."""
    lost_data: LostDataList
    apis: ApiCatalog
    authentication: Authentication
    audit: AuditLog
    authorization: Authorization | None
    """None: the node has no authorizer."""
    quotas: ClientQuotas
    check_config: Callable[[BrokerConfig], None]
    """Raises ConfigError for a configuration that this node could not use, such as missing certificates."""

    def open_session(self, principal: Principal, host: str) -> ClientSession:
        return ClientSession(access_of(self.authorization, principal, host), self.quotas, principal.name)


@dataclass(slots=True)
class ControllerServices(NodeServices):
    """What a controller has in addition."""

    liveness_probes: LivenessProbes


@dataclass(slots=True)
class Services(NodeServices):
    """What a broker has in addition."""

    gateway: ControllerGateway
    """The path to the active controller, on this node or on another one."""
    groups: GroupCoordinator
    partitions: PartitionManager
    logs: LogManager
    producer_ids: ProducerIds
    offsets_topic: InternalTopic
    streams_topics: InternalTopicCreator
    """Creates the internal topics of streams groups."""
    transactions: TransactionCoordinator
    transactions_topic: InternalTopic
    transactional_commits: TransactionalOffsetCommits
    shares: ShareCoordinator
    share_offsets: ShareOffsets
    share_state_topic: InternalTopic
    share_partitions: SharePartitionManager
    markers: MarkerWriter
    log_dir_moves: LogDirMoves
    topic_responses: TopicResponses
    telemetry: ClientTelemetry
    topics_in_creation: set[str] = field(default_factory=set)
    """Topics that the controller is creating for Metadata requests."""
