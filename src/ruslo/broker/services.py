"""What a handler may use: the parts of a running node, wired by ``node.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.model.clock import Clock

if TYPE_CHECKING:
    from ruslo.broker.drivers.controller import ControllerDriver
    from ruslo.broker.drivers.coordination.internal_topic import InternalTopic
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


@dataclass(slots=True)
class Services:
    config: BrokerConfig
    """The configuration the node was started with; ``dynamic_config.current`` has later changes."""
    node_id: int
    cluster_id: str
    clock: Clock
    metadata: MetadataDriver
    controller: ControllerDriver
    raft: RaftDriver
    partitions: PartitionManager
    logs: LogManager
    dynamic_config: DynamicConfig
    producer_ids: ProducerIds
    groups: GroupCoordinator
    offsets_topic: InternalTopic
    transactions: TransactionCoordinator
    transactions_topic: InternalTopic
    transactional_commits: TransactionalOffsetCommits
    markers: MarkerWriter
