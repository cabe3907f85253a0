"""What a node does as a controller: it serves the quorum, and decides for the cluster while it is active."""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.controller.driver import ControllerDriver
from ruslo.broker.controller.gateway import ControllerGateway
from ruslo.broker.controller.liveness_probes import LivenessProbes
from ruslo.broker.controller.registrar import ControllerRegistrar
from ruslo.broker.dispatch.api_table import controller_apis, controller_catalog, unauthenticated_apis
from ruslo.broker.dispatch.dispatcher import Dispatcher
from ruslo.broker.handlers.services import ControllerServices
from ruslo.broker.node.config_rules import BrokerConfigRules
from ruslo.broker.node.identity import read_bootstrap_records
from ruslo.broker.node.shared_components import SharedComponents
from ruslo.broker.requests.context import RequestContext
from ruslo.config.broker import BrokerConfig
from ruslo.config.listeners import Endpoint
from ruslo.machines.controller.features import supported_features
from ruslo.machines.controller.machine import ControllerMachine
from ruslo.machines.controller.state import ControllerSettings, ControllerState
from ruslo.net.server import Server
from ruslo.protocol.message import Message
from ruslo.storage.disk import Disk


class ControllerRole:
    def __init__(self, shared: SharedComponents, disk: Disk) -> None:
        """``disk``: the metadata log directory, for its bootstrap records."""
        self._shared = shared
        config = shared.config
        liveness_probes = LivenessProbes(
            shared.address_of,
            lambda broker_id, broker_epoch: self.driver.broker_gone(broker_id, broker_epoch),
            session_timeout_ms=config.int("broker.session.timeout.ms"),
        )
        shared.undo.push_async_callback(liveness_probes.stop)
        state = ControllerState(
            _settings(config, shared.cluster_id),
            BrokerConfigRules(lambda: shared.dynamic_config.current),
            supported_features(unstable=config.bool("unstable.feature.versions.enable")),
            shared.random,
            shared.new_uuid,
        )
        self.driver = ControllerDriver(
            ControllerMachine(state, read_bootstrap_records(disk)),
            shared.raft,
            shared.metadata,
            node_id=config.node_id,
            clock=shared.clock,
            scheduler=shared.scheduler,
            probe=liveness_probes.probe,
        )
        shared.undo.callback(self.driver.stop)
        self._services = ControllerServices(
            config=config,
            node_id=config.node_id,
            cluster_id=shared.cluster_id,
            clock=shared.clock,
            scheduler=shared.scheduler,
            metadata=shared.metadata,
            controller=self.driver,
            raft=shared.raft,
            dynamic_config=shared.dynamic_config,
            assignor_error=lambda group_id: None,
            lost_data=shared.logs.lost_data,
            apis=controller_catalog(),
            authentication=shared.authentication,
            audit=shared.audit,
            authorization=shared.authorization,
            quotas=shared.quotas,
            check_config=shared.security.check,
            liveness_probes=liveness_probes,
        )

    def serve(self, request: Message, context: RequestContext) -> Awaitable[Message] | Message:
        """Handle a request of this node's own broker."""
        response: Awaitable[Message] | Message = self._services.apis.handlers[request.API_KEY](
            self._services, request, context
        )
        return response

    async def start(
        self, server: Server, gateway: ControllerGateway, endpoints: tuple[Endpoint, ...]
    ) -> None:
        """Accept the requests of other nodes as soon as the metadata log is open, then register."""
        shared = self._shared
        dispatcher = Dispatcher(self._services, controller_apis(), shared.metrics.requests)
        unauthenticated = Dispatcher(self._services, unauthenticated_apis(), shared.metrics.requests)
        await server.start(dispatcher.handle_frame, unauthenticated.handle_frame)
        unstable = shared.config.bool("unstable.feature.versions.enable")
        registrar = ControllerRegistrar(
            gateway,
            node_id=shared.config.node_id,
            incarnation_id=shared.new_uuid(),
            endpoints=endpoints,
            features=supported_features(unstable=unstable),
        )
        shared.undo.push_async_callback(registrar.stop)
        registrar.start()


def _settings(config: BrokerConfig, cluster_id: str) -> ControllerSettings:
    return ControllerSettings(
        node_id=config.node_id,
        cluster_id=cluster_id,
        voter_ids=frozenset(config.quorum_voters),
        num_partitions=config.int("num.partitions"),
        default_replication_factor=config.int("default.replication.factor"),
        min_insync_replicas=config.int("min.insync.replicas"),
        unclean_leader_election_enable=config.bool("unclean.leader.election.enable"),
        broker_session_timeout_ms=config.int("broker.session.timeout.ms"),
        auto_leader_rebalance=config.bool("auto.leader.rebalance.enable"),
        leader_imbalance_check_ms=config.int("leader.imbalance.check.interval.seconds") * 1000,
        token_secret=config.secret("delegation.token.secret.key"),
        token_max_lifetime_ms=config.int("delegation.token.max.lifetime.ms"),
        token_expiry_ms=config.int("delegation.token.expiry.time.ms"),
        token_check_interval_ms=config.int("delegation.token.expiry.check.interval.ms"),
    )
