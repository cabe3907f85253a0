"""What a node has whatever its roles are: built by ``node``, and used by the roles it takes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from ruslo.broker.partitions.leader_connection import Address

if TYPE_CHECKING:
    from ruslo.broker.controller.death_watch import DeathWatch
    from ruslo.broker.controller.gateway import ControllerGateway
    from ruslo.broker.metadata.dynamic_config import DynamicConfig
    from ruslo.broker.metadata.loader import MetadataDriver
    from ruslo.broker.metrics.node_metrics import NodeMetrics
    from ruslo.broker.partitions.cleaner_process import Cleaner
    from ruslo.broker.quorum.raft import RaftDriver
    from ruslo.broker.scheduling.scheduler import Scheduler
    from ruslo.config.broker import BrokerConfig
    from ruslo.config.listeners import Endpoint
    from ruslo.model.clock import Clock
    from ruslo.model.ids import Uuid
    from ruslo.storage.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class NodeBase:
    config: BrokerConfig
    cluster_id: str
    clock: Clock
    scheduler: Scheduler
    random: Random
    new_uuid: Callable[[], Uuid]
    endpoints: tuple[Endpoint, ...]
    """The listeners of clients, as clients are told to reach them."""
    logs: LogManager
    metadata: MetadataDriver
    dynamic_config: DynamicConfig
    raft: RaftDriver
    gateway: ControllerGateway
    """The way to the active controller."""
    death_watch: DeathWatch
    metrics: NodeMetrics
    undo: contextlib.AsyncExitStack
    """What stop has to do for the parts that were started, the last one first."""
    abandon: list[Callable[[], None]]
    """The same for a node that ends without a word."""
    fail: Callable[[str], None]
    """Stop the node, for this reason."""
    new_cleaner: Callable[[], Cleaner]

    def address_of(self, broker_id: int) -> Address | None:
        """Where other brokers reach it."""
        broker = self.metadata.image.cluster.brokers.get(broker_id)
        endpoint = broker and broker.endpoint(self.config.inter_broker_listener_name)
        return Address(endpoint.host, endpoint.port) if endpoint else None
