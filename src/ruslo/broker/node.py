"""A node: builds every part, wires them by hand, starts them in order, stops them in reverse.

Start: lock and check the log directories, bind the listeners, join the metadata quorum. A controller is then
ready. A broker goes on: register, load the logs, take over the partitions, unfence, accept. Clients may
connect only when everything they can ask for is there; while logs are recovered all they can ask for is
how far that is.

Stop: hand over with the controller, end the connections, sync and close the logs, leave the clean mark.
A controller that leads resigns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import resource
import signal
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import uvloop

from ruslo.broker.api_table import broker_apis, controller_apis
from ruslo.broker.config_rules import BrokerConfigRules
from ruslo.broker.dispatch import Dispatcher, ServedApi
from ruslo.broker.drivers.broker_links import BrokerLinks
from ruslo.broker.drivers.controller import ControllerDriver
from ruslo.broker.drivers.controller_gateway import ControllerGateway
from ruslo.broker.drivers.controller_registrar import ControllerRegistrar
from ruslo.broker.drivers.coordination.internal_topic import (
    OFFSETS_PLAN,
    TRANSACTIONS_PLAN,
    InternalTopic,
    TopicPlan,
)
from ruslo.broker.drivers.death_watch import DeathWatch
from ruslo.broker.drivers.directory_assignments import DirectoryAssignments
from ruslo.broker.drivers.dynamic_config import DynamicConfig
from ruslo.broker.drivers.groups.coordinator import GroupCoordinator
from ruslo.broker.drivers.isr_proposals import IsrProposals
from ruslo.broker.drivers.lifecycle import (
    SECURITY_PROTOCOL_IDS,
    BrokerIdentity,
    BrokerLifecycle,
    LifecycleState,
)
from ruslo.broker.drivers.metadata import MetadataDriver
from ruslo.broker.drivers.producer_ids import ProducerIds
from ruslo.broker.drivers.raft import RaftDriver
from ruslo.broker.drivers.txns.asks import CoordinatorAsks
from ruslo.broker.drivers.txns.coordinator import TransactionCoordinator
from ruslo.broker.drivers.txns.markers import MarkerWriter
from ruslo.broker.drivers.txns.offset_commits import TransactionalOffsetCommits
from ruslo.broker.garbage import GarbageWatch
from ruslo.broker.handlers.fetch import FetchHandler
from ruslo.broker.handlers.produce import ProduceHandler
from ruslo.broker.identity import (
    all_directories,
    check_formatted,
    check_identity,
    read_bootstrap_records,
)
from ruslo.broker.metrics.cluster_source import controller_families, quorum_families
from ruslo.broker.metrics.group_source import GroupSource
from ruslo.broker.metrics.listener import Health
from ruslo.broker.metrics.node_metrics import NodeMetrics
from ruslo.broker.metrics.partition_source import (
    compaction_families,
    directory_families,
    log_families,
    replica_families,
)
from ruslo.broker.metrics.traffic_source import connection_families, traffic_families
from ruslo.broker.partitions.compaction import Compaction
from ruslo.broker.partitions.fetcher import Address, FetcherSettings
from ruslo.broker.partitions.fetchers import ReplicaFetchers
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.replication import IsrChanges, ReplicationSettings
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.broker.partitions.transactional_appends import TransactionalAppends
from ruslo.broker.partitions.upkeep import Upkeep
from ruslo.broker.partitions.whereabouts import RACK_AWARE_SELECTOR, Whereabouts
from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import NodeServices, NoGroups, Services
from ruslo.broker.starting import StartingAnswers
from ruslo.client.connection import ConnectionSettings
from ruslo.config.broker import BrokerConfig
from ruslo.config.listeners import Endpoint
from ruslo.machines.controller.broker_image import Endpoint as RegisteredEndpoint
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.machines.controller.machine import ControllerMachine
from ruslo.machines.controller.state import ControllerSettings, ControllerState
from ruslo.machines.raft.voters import Endpoint as VoterEndpoint
from ruslo.model.clock import Clock, SystemClock
from ruslo.model.errors import ConfigError
from ruslo.net.server import Server, ServerLimits
from ruslo.protocol.message import Message
from ruslo.storage.disk import DiskOpener
from ruslo.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


CONTROLLED_SHUTDOWN_MS = 30_000
KERNEL_CHOOSES = -1
READY = "ready"


class Node:
    def __init__(
        self, config: BrokerConfig, clock: Clock | None = None, open_disk: DiskOpener | None = None
    ) -> None:
        """Without them the node uses the system's clock and its disks."""
        self.config = config
        self._clock = clock or SystemClock()
        self._open_disk = open_disk
        self._stop_requested = asyncio.Event()
        self._undo = contextlib.AsyncExitStack()
        """What stop has to do for the parts that were started, the last one first."""
        self._abandon: list[Callable[[], None]] = []
        """The same for ``abandon``."""
        self.endpoints: tuple[Endpoint, ...] = ()
        """The listeners of clients, as clients are told to reach them."""
        self.controller: ControllerDriver | None = None
        """Of a node with that role."""
        self.failure: str | None = None
        """Why the node stops by itself."""
        self.metrics = NodeMetrics(config, self.health)
        self._state = "starting"

    @property
    def bootstrap(self) -> str:
        """What clients write into ``bootstrap.servers``."""
        return ",".join(
            f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}"
            for each in self.endpoints
        )

    async def start(self) -> None:
        """Return when clients may connect. Raises RusloError; then nothing is left running."""
        self._report_config()
        _raise_open_file_limit()
        try:
            await self._start_metrics()
            self._open_storage()
            await self._bind_listeners()
            await self._start_metadata()
            if self.config.is_controller:
                await self._serve_quorum()
            if self.config.is_broker:
                await self._register()
                await self._load_logs()
                self._start_coordinators()
                await self._serve()
            self._state = READY
        except BaseException:
            await self._undo.aclose()
            raise

    def request_stop(self, failure: str | None = None) -> None:
        """Have ``wait_for_stop`` return; a reason makes the stop a failure."""
        if failure is not None and self.failure is None:
            self.failure = failure
            logger.critical("stopping: %s", failure)
        self._stop_requested.set()

    async def wait_for_stop(self) -> None:
        await self._stop_requested.wait()

    async def stop(self) -> None:
        """The clean stop."""
        self._state = "stopping"
        await self._undo.aclose()
        logger.info("node %d stopped", self.config.node_id)

    def health(self) -> Health:
        """Whether clients are served, for probes."""
        if self._state == READY and self.config.is_broker:
            registered = self.metadata.image.cluster.brokers.get(self.config.node_id)
            if registered is None or registered.fenced:
                return Health(False, "fenced")
        return Health(self._state == READY, self._state)

    def abandon(self) -> None:
        """As if the process were killed: nothing more is said to anybody, and nothing written.

        For tests that have several nodes in one process; the event loop is to be closed right after this.
        """
        self._undo.pop_all()
        for abandon in reversed(self._abandon):
            abandon()
        self.request_stop()

    # -- the steps of a start, each with its undoing ---------------------------------------------------------

    def _report_config(self) -> None:
        report = self.config.report()
        if report.without_effect:
            logger.warning("settings accepted without effect: %s", ", ".join(report.without_effect))
        for name, nearest in report.unknown:
            hint = f"; did you mean {nearest}?" if nearest else ""
            logger.warning("unknown setting %s is ignored%s", name, hint)
        for warning in report.warnings:
            logger.warning("%s", warning)

    async def _start_metrics(self) -> None:
        """First of all, so that a start that takes its time can be watched."""
        self._undo.push_async_callback(self.metrics.stop)
        await self.metrics.start()

    def _open_storage(self) -> None:
        config = self.config
        check_formatted(config, self._open_disk)
        self.logs = LogManager.open(
            all_directories(config),
            self._clock,
            open_disk=self._open_disk,
            delete_delay_ms=config.int("log.segment.delete.delay.ms"),
            producer_expiration_ms=config.int("producer.id.expiration.ms"),
        )
        self._undo.callback(self._close_storage)
        self._abandon.append(self.logs.abandon)
        for directory in self.logs.directories:
            directory.holds_partitions = config.is_broker and directory.path in config.log_dirs
        self._loaded = False
        metadata_directory = next(
            each for each in self.logs.directories if each.path == config.metadata_log_dir
        )
        if metadata_directory.failure is not None:
            raise metadata_directory.failure
        self.cluster_id = check_identity(config, self.logs.directories).cluster_id
        self.metrics.belongs_to(self.cluster_id)
        self.metrics.add(lambda: directory_families(self.logs))

    def _close_storage(self) -> None:
        if self._loaded:
            self.logs.stop(self.lifecycle.epoch)
        else:
            self.logs.abandon()

    async def _bind_listeners(self) -> None:
        config = self.config
        limits = _server_limits(config)
        self._broker_server = Server(limits)
        self._controller_server = Server(limits)
        ports: dict[str, int] = {}
        for server, listeners in (
            (self._broker_server, config.broker_listeners),
            (self._controller_server, config.controller_listeners),
        ):
            self._undo.push_async_callback(server.close)
            self._abandon.append(server.abort)
            for each in listeners:
                if each.security_protocol != "PLAINTEXT":
                    raise ConfigError(
                        f"listener {each.listener_name} uses {each.security_protocol}; this release serves "
                        "PLAINTEXT only: change listener.security.protocol.map"
                    )
                ports[each.listener_name] = await server.listen(each.listener_name, each.host, each.port)
        self.endpoints = config.advertised_broker_listeners(ports)
        self._controller_endpoints = config.advertised_controller_listeners(ports)
        self.metrics.add(lambda: connection_families([self._broker_server, self._controller_server]))

    async def _start_metadata(self) -> None:
        config = self.config
        directory = next(each for each in self.logs.directories if each.path == config.metadata_log_dir)
        self.metadata = MetadataDriver()
        self.dynamic_config = DynamicConfig(config, self.metadata, node_id=config.node_id)
        self.raft = RaftDriver(
            config=config,
            disk=directory.disk,
            clock=self._clock,
            directory_id=directory.directory_id,
            endpoints=[VoterEndpoint(e.listener_name, e.host, e.port) for e in self._controller_endpoints],
            on_failure=lambda error: self.request_stop(f"the metadata log failed: {error}"),
            cluster_id=self.cluster_id,
        )
        self._undo.push_async_callback(self.raft.stop)
        self._abandon.append(self.raft.abandon)
        self.raft.register(self.metadata)
        if config.is_controller:
            self.controller = ControllerDriver(
                ControllerMachine(self._controller_state(), read_bootstrap_records(directory.disk)),
                self.raft,
                self.metadata,
                node_id=config.node_id,
                clock=self._clock,
            )
            self._undo.callback(self.controller.stop)
            self.raft.register(self.controller)
        self.gateway = ControllerGateway(
            self.controller,
            self.raft,
            self.metadata,
            self._clock,
            node_id=config.node_id,
            request_timeout_ms=config.int("request.timeout.ms"),
        )
        self._undo.push_async_callback(self.gateway.stop)
        self._death_watch = DeathWatch(
            self._address_of,
            self._broker_gone,
            session_timeout_ms=config.int("broker.session.timeout.ms"),
        )
        self._undo.push_async_callback(self._death_watch.stop)
        if self.controller is not None:
            self.controller.suspect = self._death_watch.suspect
        self.raft.snapshot_from(self.metadata.snapshot_records)
        await self.raft.start()
        self.metrics.add(lambda: quorum_families(self.raft))
        self.metrics.add(lambda: controller_families(self.controller, self.metadata))

    def _broker_gone(self, broker_id: int, broker_epoch: int) -> None:
        if self.controller is not None:
            self.controller.broker_gone(broker_id, broker_epoch)

    async def _serve_quorum(self) -> None:
        """Other nodes may fetch and ask for votes as soon as the log is open."""
        assert self.controller is not None
        config = self.config
        services = NodeServices(
            config=config,
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            clock=self._clock,
            metadata=self.metadata,
            controller=self.controller,
            raft=self.raft,
            dynamic_config=self.dynamic_config,
            death_watch=self._death_watch,
            groups=NoGroups(),
        )
        served = controller_apis()
        self.gateway.serve_here = partial(_answer_here, services, served)
        await self._controller_server.start(Dispatcher(services, served, self.metrics.requests).handle_frame)
        registrar = ControllerRegistrar(
            self.gateway, node_id=config.node_id, endpoints=self._controller_endpoints
        )
        self._undo.push_async_callback(registrar.stop)
        registrar.start()

    def _controller_state(self) -> ControllerState:
        config = self.config
        settings = ControllerSettings(
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            num_partitions=config.int("num.partitions"),
            default_replication_factor=config.int("default.replication.factor"),
            min_insync_replicas=config.int("min.insync.replicas"),
            unclean_leader_election_enable=config.bool("unclean.leader.election.enable"),
            broker_session_timeout_ms=config.int("broker.session.timeout.ms"),
            auto_leader_rebalance=config.bool("auto.leader.rebalance.enable"),
            leader_imbalance_check_ms=config.int("leader.imbalance.check.interval.seconds") * 1000,
        )
        rules = BrokerConfigRules(lambda: self.dynamic_config.current)
        return ControllerState(settings, rules, SUPPORTED_FEATURES, random.Random())

    async def _register(self) -> None:
        config = self.config
        identity = BrokerIdentity(
            broker_id=config.node_id,
            cluster_id=self.cluster_id,
            endpoints=[
                RegisteredEndpoint(
                    e.listener_name, e.host, e.port, SECURITY_PROTOCOL_IDS[e.security_protocol]
                )
                for e in self.endpoints
            ],
            log_dirs=[
                each.directory_id for each in self.logs.directories if each.online and each.holds_partitions
            ],
            rack=config.opt_str("broker.rack"),
            previous_epoch=self.logs.previous_broker_epoch,
        )
        self.lifecycle = BrokerLifecycle(
            identity,
            self.gateway,
            self.metadata,
            clock=self._clock,
            heartbeat_interval_ms=config.int("broker.heartbeat.interval.ms"),
            registration_timeout_ms=config.int("initial.broker.registration.timeout.ms"),
            offline_log_dirs=self.logs.offline_directory_ids,
            lost_directory_timeout_ms=config.int("log.dir.failure.timeout.ms"),
            on_failure=self.request_stop,
        )
        self._undo.push_async_callback(self._leave_cluster)
        await self.lifecycle.register()

    async def _leave_cluster(self) -> None:
        """Once: before the connections end, or when the start has failed before there were any."""
        if self.raft.failure is None and self.lifecycle.state is not LifecycleState.STOPPING:
            await self.lifecycle.shut_down(timeout_ms=CONTROLLED_SHUTDOWN_MS)

    async def _load_logs(self) -> None:
        config = self.config
        threads = config.int("num.recovery.threads.per.data.dir")
        if not self.logs.was_clean:
            # Recovery reads every segment that was not synced: whoever asks is told how far it is.
            await self._broker_server.start(StartingAnswers(self.logs).handle_frame)
        # Even after a clean stop thousands of logs take a while, and heartbeats must go on meanwhile.
        await asyncio.to_thread(self.logs.load, self.dynamic_config.log_config, recovery_threads=threads)
        self._loaded = True
        assignments = DirectoryAssignments(
            self.gateway,
            broker_id=config.node_id,
            broker_epoch=lambda: self.lifecycle.epoch,
            report_lost=self.lifecycle.directory_lost,
        )
        self._undo.push_async_callback(assignments.stop)
        proposals = IsrProposals(
            self.gateway, broker_id=config.node_id, broker_epoch=lambda: self.lifecycle.epoch
        )
        self._undo.push_async_callback(proposals.stop)
        fetchers = ReplicaFetchers(self._address_of, self._fetcher_settings())
        self.metadata.topic_answers.lost_leaders = fetchers.lost_leaders
        isr_changes = IsrChanges()
        self.partitions = PartitionManager(
            config.node_id,
            self.logs,
            self.dynamic_config,
            assignments,
            ReplicationSettings(
                self.metadata,
                config.int("replica.lag.time.max.ms"),
                self._clock,
                proposals.propose,
                self._replication_quota("leader.replication.throttled.rate"),
                isr_changes,
            ),
            fetchers,
            config.metadata_log_dir,
            self.metrics.traffic,
            self.request_stop,
        )
        self._undo.push_async_callback(self.partitions.close)
        self.metadata.subscribe(self.partitions.apply, self.partitions.settled)
        await self.partitions.settled()
        self.partitions.set_aside_strays()
        upkeep = Upkeep(config, self.logs, self.partitions)
        self._undo.push_async_callback(upkeep.stop)
        upkeep.start()
        self.compaction = Compaction(self.dynamic_config, self.logs, self.partitions)
        self._undo.push_async_callback(self.compaction.stop)
        self._abandon.append(self.compaction.abandon)
        self.compaction.start()
        self.metrics.add(lambda: traffic_families(self.metrics.traffic))
        self.metrics.add(lambda: replica_families(self.partitions, proposals, isr_changes))
        self.metrics.add(lambda: compaction_families(self.compaction))
        self.metrics.add(lambda: log_families(self.partitions))

    def _address_of(self, broker_id: int) -> Address | None:
        """Where other brokers reach it."""
        broker = self.metadata.image.cluster.brokers.get(broker_id)
        endpoint = broker and broker.endpoint(self.config.inter_broker_listener_name)
        return Address(endpoint.host, endpoint.port) if endpoint else None

    def _fetcher_settings(self) -> FetcherSettings:
        config = self.config
        return FetcherSettings(
            node_id=config.node_id,
            broker_epoch=lambda: self.lifecycle.epoch,
            clock=self._clock,
            max_wait_ms=config.int("replica.fetch.wait.max.ms"),
            min_bytes=config.int("replica.fetch.min.bytes"),
            max_bytes=config.int("replica.fetch.response.max.bytes"),
            max_partition_bytes=config.int("replica.fetch.max.bytes"),
            max_pause_ms=config.int("replica.fetch.backoff.ms"),
            connection=ConnectionSettings(
                client_id=f"broker-{config.node_id}-fetcher-0",
                request_timeout_ms=config.int("replica.socket.timeout.ms"),
            ),
            quota=self._replication_quota("follower.replication.throttled.rate"),
            storage_failed=lambda error: self.partitions.storage_failed(error),
            logs_cut=self.logs.were_cut,
        )

    def _replication_quota(self, key: str) -> ReplicationQuota:
        return ReplicationQuota(lambda: self.dynamic_config.dynamic_rate(key), self._clock)

    def _start_coordinators(self) -> None:
        config = self.config
        self._producer_ids = ProducerIds(
            self.gateway, broker_id=config.node_id, broker_epoch=lambda: self.lifecycle.epoch
        )
        self._undo.push_async_callback(self._producer_ids.stop)
        self.groups = GroupCoordinator(
            config, self.dynamic_config, self.metadata, self.partitions, self._clock
        )
        self._undo.push_async_callback(self.groups.stop)
        self._markers = MarkerWriter(
            self.partitions, self.groups, self._clock, config.int("request.timeout.ms")
        )
        links = self._links()
        lag = GroupSource(self.groups, self.partitions, self.metadata, links)
        self.metrics.add(lag.families, before=lag.refresh)
        self.transactions = TransactionCoordinator(
            config,
            self.dynamic_config,
            self.metadata,
            self.partitions,
            self._producer_ids,
            self._markers,
            links,
            self._clock,
            node_id=config.node_id,
            offsets_partition_of=self.groups.partition_of,
        )
        self._undo.push_async_callback(self.transactions.stop)

    def _links(self) -> BrokerLinks:
        config = self.config
        links = BrokerLinks(
            self._address_of,
            ConnectionSettings(
                client_id=f"broker-{config.node_id}",
                request_timeout_ms=config.int("request.timeout.ms"),
            ),
        )
        self._undo.push_async_callback(links.stop)
        return links

    def _internal_topic(self, plan: TopicPlan) -> InternalTopic:
        topic = InternalTopic(plan, lambda: self.dynamic_config.current, self.gateway)
        self._undo.push_async_callback(topic.stop)
        return topic

    async def _serve(self) -> None:
        config = self.config
        asks = CoordinatorAsks(self.transactions, self.transactions.verify_here)
        services = Services(
            config=config,
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            clock=self._clock,
            metadata=self.metadata,
            controller=self.gateway,
            raft=self.raft,
            partitions=self.partitions,
            logs=self.logs,
            dynamic_config=self.dynamic_config,
            death_watch=self._death_watch,
            producer_ids=self._producer_ids,
            groups=self.groups,
            offsets_topic=self._internal_topic(OFFSETS_PLAN),
            transactions=self.transactions,
            transactions_topic=self._internal_topic(TRANSACTIONS_PLAN),
            transactional_commits=TransactionalOffsetCommits(
                asks, self.groups, self.partitions, lambda: self.dynamic_config.current, self._clock
            ),
            markers=self._markers,
        )
        transactional = TransactionalAppends(asks, lambda: self.dynamic_config.current, self._clock)
        whereabouts = Whereabouts(
            self.metadata,
            node_id=config.node_id,
            rack_aware=config.opt_str("replica.selector.class") == RACK_AWARE_SELECTOR,
        )
        requests = self.metrics.requests
        produce = ProduceHandler(
            self.partitions, transactional, whereabouts, self._clock, requests.of("Produce")
        )
        fetch = FetchHandler(
            self.partitions,
            whereabouts,
            self._clock,
            requests.of("Fetch"),
            max_response_bytes=config.int("fetch.max.bytes"),
            max_sessions=config.int("max.incremental.fetch.session.cache.slots"),
        )
        self.dynamic_config.subscribe(lambda current: self._broker_server.limit(_server_limits(current)))
        await self.lifecycle.unfence()
        dispatcher = Dispatcher(services, broker_apis(produce, fetch), requests)
        await self._broker_server.start(dispatcher.handle_frame)
        # Connections end before anything that serves them; closing a server twice does no harm.
        self._undo.push_async_callback(self._broker_server.close)
        # Whoever asks here while the leaderships move is told where they went, which a closed connection
        # would not say.
        self._undo.push_async_callback(self._leave_cluster)
        logger.info("node %d of cluster %s serves %s", config.node_id, self.cluster_id, self.bootstrap)


def _answer_here(
    services: NodeServices, served: Mapping[int, ServedApi], request: Message, context: RequestContext
) -> Awaitable[Message] | Message:
    handle = served[request.API_KEY].handle
    assert handle is not None
    response: Awaitable[Message] | Message = handle(services, request, context)
    return response


def _server_limits(config: BrokerConfig) -> ServerLimits:
    return ServerLimits(
        max_frame_bytes=config.int("socket.request.max.bytes"),
        max_connections=config.int("max.connections"),
        max_connections_per_ip=config.int("max.connections.per.ip"),
        max_connections_of_ip=config.connection_overrides_per_ip,
        idle_ms=config.int("connections.max.idle.ms"),
        backlog=config.int("socket.listen.backlog.size"),
        send_buffer_bytes=_buffer_bytes(config, "socket.send.buffer.bytes"),
        receive_buffer_bytes=_buffer_bytes(config, "socket.receive.buffer.bytes"),
    )


def _buffer_bytes(config: BrokerConfig, key: str) -> int:
    """Kafka's default of 100 KB costs a third more CPU than a size the kernel chooses (ADR 6)."""
    return config.int(key) if config.is_set(key) else KERNEL_CHOOSES


def _raise_open_file_limit() -> None:
    """Thousands of partitions and connections need more descriptors than a shell's default of 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(
    config: BrokerConfig,
    on_ready: Callable[[Node], None],
    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
) -> int:
    """Run a node until SIGTERM or SIGINT; returns the exit code. Raises RusloError if it cannot start."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_run(config, on_ready))


async def _run(config: BrokerConfig, on_ready: Callable[[Node], None]) -> int:
    node = Node(config)
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, node.request_stop)
    garbage = GarbageWatch()
    garbage.start()
    await node.start()
    garbage.loaded()
    on_ready(node)
    await node.wait_for_stop()
    garbage.stop()
    await node.stop()
    return 1 if node.failure else 0
