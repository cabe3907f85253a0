"""What a handler may use: the parts of a running node, wired by ``node.py``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ruslo.broker.request_context import RequestContext
from ruslo.model.clock import Clock
from ruslo.protocol.message import Message

if TYPE_CHECKING:
    from ruslo.broker.drivers.coordination.internal_topic import InternalTopic
    from ruslo.broker.drivers.death_watch import DeathWatch
    from ruslo.broker.drivers.dynamic_config import DynamicConfig
    from ruslo.broker.drivers.groups.coordinator import GroupCoordinator
    from ruslo.broker.drivers.metadata import MetadataDriver
    from ruslo.broker.drivers.producer_ids import ProducerIds
    from ruslo.broker.drivers.raft import RaftDriver
    from ruslo.broker.drivers.txns.coordinator import TransactionCoordinator
    from ruslo.broker.drivers.txns.markers import MarkerWriter
    from ruslo.broker.drivers.txns.offset_commits import TransactionalOffsetCommits
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.config.broker import BrokerConfig
    from ruslo.storage.log_manager import LogManager
    from ruslo.storage.lost_data import LostDataList


class ControllerPort(Protocol):
    """The active controller: the one of this node, or, for a broker, wherever it is."""

    @property
    def committed_offset(self) -> int:
        """How far this broker's metadata must be to show what was answered last."""
        ...

    def submit(
        self, request: Message, context: RequestContext | None = None, *, timeout_ms: int = 0
    ) -> asyncio.Future[Message]: ...


class AssignorReport(Protocol):
    def assignor_error(self, group_id: str) -> str | None: ...


class NoGroups:
    """What a node without the broker role knows of groups."""

    def assignor_error(self, group_id: str) -> str | None:
        return None


@dataclass(slots=True)
class NodeServices:
    """What every role has; handlers that serve controllers get no more than this."""

    config: BrokerConfig
    """The configuration the node was started with; ``dynamic_config.current`` has later changes."""
    node_id: int
    cluster_id: str
    clock: Clock
    metadata: MetadataDriver
    controller: ControllerPort
    raft: RaftDriver
    dynamic_config: DynamicConfig
    death_watch: DeathWatch
    groups: AssignorReport
    lost_data: LostDataList


@dataclass(slots=True)
class Services(NodeServices):
    """What a broker has besides."""

    groups: GroupCoordinator
    partitions: PartitionManager
    logs: LogManager
    producer_ids: ProducerIds
    offsets_topic: InternalTopic
    transactions: TransactionCoordinator
    transactions_topic: InternalTopic
    transactional_commits: TransactionalOffsetCommits
    markers: MarkerWriter
    topics_in_creation: set[str] = field(default_factory=set)
    """Topics that Metadata requests asked for and the controller is creating."""
