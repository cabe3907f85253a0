"""The components of a node that its roles share (Kafka's SharedServer), built by ``node``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.broker.partitions.leader_connection import Address

if TYPE_CHECKING:
    from random import Random

    from ruslo.broker.metadata.dynamic_config import DynamicConfig
    from ruslo.broker.metadata.loader import MetadataLoader
    from ruslo.broker.metrics.node_metrics import NodeMetrics
    from ruslo.broker.node.listener_security import NodeSecurity
    from ruslo.broker.partitions.cleaner_process import Cleaner
    from ruslo.broker.quorum.raft import RaftDriver
    from ruslo.broker.scheduling.scheduler import Scheduler
    from ruslo.broker.security.audit_log import AuditLog
    from ruslo.broker.security.authentication import Authentication
    from ruslo.broker.security.authorization import Authorization
    from ruslo.config.broker import BrokerConfig
    from ruslo.config.listeners import Endpoint
    from ruslo.machines.quota import ClientQuotas
    from ruslo.model.clock import Clock
    from ruslo.model.ids import Uuid
    from ruslo.storage.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class SharedComponents:
    config: BrokerConfig
    cluster_id: str
    clock: Clock
    random: Random
    scheduler: Scheduler
    new_uuid: Callable[[], Uuid]
    endpoints: tuple[Endpoint, ...]
    """The advertised client listeners."""
    logs: LogManager
    metadata: MetadataLoader
    dynamic_config: DynamicConfig
    raft: RaftDriver
    metrics: NodeMetrics
    undo: contextlib.AsyncExitStack
    """Stops the started parts in reverse order."""
    abandon: list[Callable[[], None]]
    """Releases the same parts as if the process had been killed."""
    fail: Callable[[str], None]
    """Stops the node for this reason."""
    new_cleaner: Callable[[], Cleaner]
    security: NodeSecurity
    authentication: Authentication
    audit: AuditLog
    authorization: Authorization | None
    quotas: ClientQuotas

    def address_of(self, broker_id: int) -> Address | None:
        """The inter-broker listener of a broker; None if it is not registered."""
        broker = self.metadata.image.cluster.brokers.get(broker_id)
        endpoint = broker and broker.endpoint(self.config.inter_broker_listener_name)
        return Address(endpoint.host, endpoint.port) if endpoint else None
