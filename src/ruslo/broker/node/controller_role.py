"""What a node does as a controller: it serves the quorum, and decides for the cluster while it is active."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from random import Random

from ruslo.broker.controller.driver import ControllerDriver
from ruslo.broker.controller.gateway import ControllerGateway
from ruslo.broker.controller.liveness_probes import LivenessProbes
from ruslo.broker.controller.registrar import ControllerRegistrar
from ruslo.broker.dispatch.api_table import controller_apis, controller_catalog
from ruslo.broker.dispatch.dispatcher import Dispatcher
from ruslo.broker.handlers.services import ControllerServices
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.metrics.node_metrics import NodeMetrics
from ruslo.broker.node.config_rules import BrokerConfigRules
from ruslo.broker.node.identity import read_bootstrap_records
from ruslo.broker.node.shared_components import broker_address
from ruslo.broker.quorum.raft import RaftDriver
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.config.listeners import Endpoint
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.machines.controller.machine import ControllerMachine
from ruslo.machines.controller.state import ControllerSettings, ControllerState
from ruslo.model.clock import Clock
from ruslo.model.ids import Uuid
from ruslo.net.server import Server
from ruslo.protocol.message import Message
from ruslo.storage.disk import Disk
from ruslo.storage.lost_data import LostDataList


class ControllerRole:
    def __init__(
        self,
        config: BrokerConfig,
        raft: RaftDriver,
        metadata: MetadataLoader,
        dynamic_config: DynamicConfig,
        *,
        cluster_id: str,
        clock: Clock,
        random: Random,
        new_uuid: Callable[[], Uuid],
        scheduler: Scheduler,
        disk: Disk,
        lost_data: LostDataList,
        undo: contextlib.AsyncExitStack,
    ) -> None:
        """``disk``: the metadata log directory, for its bootstrap records."""
        self._config = config
        self._undo = undo
        self._new_uuid = new_uuid
        liveness_probes = LivenessProbes(
            lambda broker_id: broker_address(metadata, config, broker_id),
            lambda broker_id, broker_epoch: self.driver.broker_gone(broker_id, broker_epoch),
            session_timeout_ms=config.int("broker.session.timeout.ms"),
        )
        undo.push_async_callback(liveness_probes.stop)
        state = ControllerState(
            _settings(config, cluster_id),
            BrokerConfigRules(lambda: dynamic_config.current),
            SUPPORTED_FEATURES,
            random,
            new_uuid,
        )
        self.driver = ControllerDriver(
            ControllerMachine(state, read_bootstrap_records(disk)),
            raft,
            metadata,
            node_id=config.node_id,
            clock=clock,
            scheduler=scheduler,
            probe=liveness_probes.probe,
        )
        undo.callback(self.driver.stop)
        self._services = ControllerServices(
            config=config,
            node_id=config.node_id,
            cluster_id=cluster_id,
            clock=clock,
            scheduler=scheduler,
            metadata=metadata,
            controller=self.driver,
            raft=raft,
            dynamic_config=dynamic_config,
            assignor_error=lambda group_id: None,
            lost_data=lost_data,
            apis=controller_catalog(),
            liveness_probes=liveness_probes,
        )

    def serve(self, request: Message, context: RequestContext) -> Awaitable[Message] | Message:
        """Handle a request of this node's own broker."""
        response: Awaitable[Message] | Message = self._services.apis.handlers[request.API_KEY](
            self._services, request, context
        )
        return response

    async def start(
        self,
        server: Server,
        gateway: ControllerGateway,
        endpoints: tuple[Endpoint, ...],
        metrics: NodeMetrics,
    ) -> None:
        """Accept the requests of other nodes as soon as the metadata log is open, then register."""
        dispatcher = Dispatcher(self._services, controller_apis(), metrics.requests)
        await server.start(dispatcher.handle_frame)
        registrar = ControllerRegistrar(
            gateway,
            node_id=self._config.node_id,
            incarnation_id=self._new_uuid(),
            endpoints=endpoints,
        )
        self._undo.push_async_callback(registrar.stop)
        registrar.start()


def _settings(config: BrokerConfig, cluster_id: str) -> ControllerSettings:
    return ControllerSettings(
        node_id=config.node_id,
        cluster_id=cluster_id,
        num_partitions=config.int("num.partitions"),
        default_replication_factor=config.int("default.replication.factor"),
        min_insync_replicas=config.int("min.insync.replicas"),
        unclean_leader_election_enable=config.bool("unclean.leader.election.enable"),
        broker_session_timeout_ms=config.int("broker.session.timeout.ms"),
        auto_leader_rebalance=config.bool("auto.leader.rebalance.enable"),
        leader_imbalance_check_ms=config.int("leader.imbalance.check.interval.seconds") * 1000,
    )
