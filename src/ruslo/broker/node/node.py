"""A node: builds every part, wires them by hand, starts them in order and stops them in reverse.

What it does in its roles is in ``controller_role`` and ``broker_role``; the roles share ``SharedComponents``.

Start: open the metrics listener, lock and check the log directories, bind the listeners, join the metadata
quorum. A controller is then ready. A broker continues: register, load the logs, apply the metadata to the
partitions, be unfenced, accept. After an unclean shutdown the listeners accept earlier, but only report the
progress of the recovery.

Stop: controlled shutdown, close the connections, sync and close the logs, write the clean-shutdown files. A
controller that leads resigns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import threading
from collections.abc import Callable
from functools import partial
from random import Random

import uvloop

from ruslo.broker.controller.driver import ControllerDriver
from ruslo.broker.controller.gateway import ControllerGateway
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.metrics.cluster_source import controller_families, quorum_families
from ruslo.broker.metrics.listener import Health
from ruslo.broker.metrics.node_metrics import NodeMetrics
from ruslo.broker.metrics.partition_source import directory_families
from ruslo.broker.metrics.traffic_source import connection_families
from ruslo.broker.node.abandoned_lookups import forget_abandoned_lookups
from ruslo.broker.node.authorizer import authorization_of
from ruslo.broker.node.broker_role import BrokerRole
from ruslo.broker.node.certificate_watch import CertificateWatch
from ruslo.broker.node.controller_role import ControllerRole
from ruslo.broker.node.garbage import GarbageCollection
from ruslo.broker.node.identity import (
    all_directories,
    check_formatted,
    check_identity,
)
from ruslo.broker.node.listener_security import NodeSecurity, metrics_tls
from ruslo.broker.node.quota_updates import QuotaUpdates
from ruslo.broker.node.server_limits import server_limits
from ruslo.broker.node.shared_components import SharedComponents
from ruslo.broker.partitions.cleaner_process import Cleaner, CleanerProcess
from ruslo.broker.quorum.log_listener import MetadataLogListener
from ruslo.broker.quorum.metadata_evidence import MetadataEvidence, MetadataLost
from ruslo.broker.quorum.raft import RaftDriver
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.broker.security.audit_log import AuditLog
from ruslo.broker.security.authentication import Authentication
from ruslo.broker.security.credentials import Credentials
from ruslo.config.broker import BrokerConfig
from ruslo.config.listeners import Endpoint
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.quota import ClientQuotas, Windows
from ruslo.machines.raft.voters import Endpoint as VoterEndpoint
from ruslo.model.clock import Clock, SystemClock
from ruslo.model.ids import random_uuid
from ruslo.model.topics import TopicPartition
from ruslo.net.server import Server
from ruslo.storage.disk import DiskOpener
from ruslo.storage.log_dir import LogDir
from ruslo.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

READY = "ready"


class Node:
    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        open_disk: DiskOpener | None = None,
        new_cleaner: Callable[[], Cleaner] = CleanerProcess,
        scheduler: Scheduler | None = None,
        random: Random | None = None,
    ) -> None:
        """By default the node uses the system's clock, disks and randomness, and a process for compaction."""
        self.config = config
        self._new_cleaner = new_cleaner
        self._clock = clock or SystemClock()
        self._scheduler = scheduler or Scheduler(self._clock)
        self._random = random or Random()
        self._new_uuid = partial(random_uuid, self._random.randbytes)
        self._open_disk = open_disk
        self._stop_requested = asyncio.Event()
        self._undo = contextlib.AsyncExitStack()
        self._abandon: list[Callable[[], None]] = []
        self.endpoints: tuple[Endpoint, ...] = ()
        """The advertised client listeners."""
        self._controller_role: ControllerRole | None = None
        self._broker: BrokerRole | None = None
        self.failure: str | None = None
        """The failure that stops the node."""
        self.metrics = NodeMetrics(config, self.health, self._clock, self._scheduler)
        self._state = "starting"

    @property
    def bootstrap(self) -> str:
        """The value of ``bootstrap.servers`` for clients."""
        return ",".join(
            f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}"
            for each in self.endpoints
        )

    @property
    def broker(self) -> BrokerRole:
        assert self._broker is not None, "the node is not a broker, or has not started that far"
        return self._broker

    @property
    def controller(self) -> ControllerDriver | None:
        return None if self._controller_role is None else self._controller_role.driver

    @property
    def has_loaded(self) -> bool:
        """The broker's logs are open: partitions follow the metadata, and a clean shutdown may be marked."""
        return self._broker is not None and self._broker.has_loaded

    async def start(self) -> None:
        """Return when clients may connect. Raises RusloError; then nothing is left running."""
        self._report_config()
        _raise_open_file_limit()
        try:
            await self._start_metrics()
            self._open_storage()
            self._build_security()
            await self._bind_listeners()
            await self._start_metadata()
            if self._controller_role is not None:
                await self._controller_role.start(
                    self._controller_server, self.gateway, self._controller_endpoints
                )
            if self.config.is_broker:
                self._broker = BrokerRole(self._shared, self.gateway, self._broker_server)
                await self._broker.start()
                logger.info(
                    "node %d of cluster %s is ready at %s",
                    self.config.node_id,
                    self.cluster_id,
                    self.bootstrap,
                )
            self._state = READY
        except BaseException as error:
            await self._undo.aclose()
            if isinstance(error, MetadataLost):
                # No log was opened: the next start must find the same evidence.
                self.logs.restore_clean_shutdown_files()
            raise

    def request_stop(self, failure: str | None = None) -> None:
        """Let ``wait_for_stop`` return; with a reason the stop is a failure."""
        if failure is not None and self.failure is None:
            self.failure = failure
            logger.critical("stopping: %s", failure)
        self._stop_requested.set()

    async def wait_for_stop(self) -> None:
        await self._stop_requested.wait()

    async def stop(self) -> None:
        """Shut down cleanly."""
        self._state = "stopping"
        await self._undo.aclose()
        logger.info("node %d stopped", self.config.node_id)

    def health(self) -> Health:
        """Whether clients are served, for health probes."""
        if self._state == READY and self.config.is_broker:
            registered = self.metadata.image.cluster.brokers.get(self.config.node_id)
            if registered is None or registered.fenced:
                return Health(False, "fenced")
        return Health(self._state == READY, self._state)

    def abandon(self) -> None:
        """End as if the process were killed: send and write nothing more.

        For tests with several nodes in one process; the event loop must be closed right after this.
        """
        self._undo.pop_all()
        for abandon in reversed(self._abandon):
            abandon()
        self.request_stop()

    # -- the steps of a start, each with its reverse ---------------------------------------------------------

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
        """The first step, so that a long start can be observed."""
        self._undo.push_async_callback(self.metrics.stop)
        self._metrics_tls = metrics_tls(self.config)
        await self.metrics.start(self._metrics_tls)

    def _open_storage(self) -> None:
        config = self.config
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        check_formatted(config, self._open_disk)
        self.logs = LogManager.open(
            all_directories(config),
            self._clock,
            open_disk=self._open_disk,
            new_uuid=self._new_uuid,
            on_offline=self._on_log_dir_offline,
            **_log_manager_settings(config),
        )
        self._undo.push_async_callback(self._close_storage)
        self._abandon.append(self.logs.abandon)
        for directory in self.logs.directories:
            directory.holds_partitions = config.is_broker and directory.path in config.log_dirs
        metadata_directory = next(
            each for each in self.logs.directories if each.path == config.metadata_log_dir
        )
        if metadata_directory.failure is not None:
            raise metadata_directory.failure
        self.cluster_id = check_identity(config, self.logs.directories).cluster_id
        self._metadata_evidence = MetadataEvidence.of(self.logs)
        self.metrics.belongs_to(self.cluster_id)
        self.metrics.add(lambda: directory_families(self.logs))

    async def _close_storage(self) -> None:
        if not self.has_loaded:
            self.logs.abandon()
            return
        # Thousands of logs take a while, and a node that stops can be observed to the end.
        await asyncio.to_thread(self.logs.stop, self.broker.lifecycle.epoch)

    def _on_log_dir_offline(self, directory: LogDir, partitions: list[TopicPartition]) -> None:
        if not self.has_loaded:
            return  # the broker has no partitions yet, and registers without this directory
        failed = partial(self.broker.partitions.log_dir_failed, directory, partitions)
        if threading.get_ident() == self._loop_thread:
            failed()
        else:
            self._loop.call_soon_threadsafe(failed)

    def _build_security(self) -> None:
        """Before any listener is opened: a setting that cannot be honoured stops the start."""
        config = self.config
        self.metadata = MetadataLoader()
        self.dynamic_config = DynamicConfig(config, self.metadata, node_id=config.node_id)
        credentials = Credentials(self.metadata, config.secret("delegation.token.secret.key"), self._clock)
        self._security = NodeSecurity(config, credentials, self._clock, self._metrics_tls)
        self._audit = AuditLog(
            config.str("ruslo.audit.log"),
            self._clock,
            config.node_id,
            with_allowed=config.bool("ruslo.audit.log.allowed"),
        )
        self._undo.callback(self._audit.close)
        self._authorization = authorization_of(config, self._audit, self.metadata, self.request_stop)
        self._quotas = ClientQuotas(
            *(
                Windows(config.int(f"{prefix}.num"), config.int(f"{prefix}.size.seconds") * 1000)
                for prefix in ("quota.window", "controller.quota.window")
            )
        )
        quota_updates = QuotaUpdates(self._quotas)
        self._undo.push_async_callback(quota_updates.stop)
        self.metadata.subscribe(quota_updates.on_metadata_change)
        self._authentication = Authentication(
            config.int("connection.failed.authentication.delay.ms") / 1000, self._audit
        )

    async def _bind_listeners(self) -> None:
        config = self.config
        limits = server_limits(config)
        self._broker_server = Server(limits, connection_rate_of_ip=self._quotas.connection_rate)
        self._controller_server = Server(limits)
        ports: dict[str, int] = {}
        for server, listeners in (
            (self._broker_server, config.broker_listeners),
            (self._controller_server, config.controller_listeners),
        ):
            self._undo.push_async_callback(server.close)
            self._abandon.append(server.abort)
            for each in listeners:
                security = self._security.of_listener(each.listener_name)
                ports[each.listener_name] = await server.listen(
                    each.listener_name, each.host, each.port, security
                )
        self._undo.push_async_callback(self._security.stop)
        self._security.start()
        self._undo.callback(CertificateWatch(self._security, self.dynamic_config).start().stop)
        self.metadata.subscribe(self._close_deleted_users)
        self.endpoints = config.advertised_broker_listeners(ports)
        self._controller_endpoints = config.advertised_controller_listeners(ports)
        self.metrics.add(lambda: connection_families([self._broker_server, self._controller_server]))

    def _close_deleted_users(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Close the connections of users and tokens that do not exist any more."""
        users = delta.changed_users - {user for user, _ in image.security.scram_credentials}
        tokens = delta.changed_tokens - image.security.tokens.keys()
        if users or tokens:
            for server in (self._broker_server, self._controller_server):
                server.close_logins(users, tokens)

    async def _start_metadata(self) -> None:
        config = self.config
        directory = next(each for each in self.logs.directories if each.path == config.metadata_log_dir)
        self.dynamic_config.subscribe(lambda current: self.logs.reconfigure(**_log_manager_settings(current)))
        self.raft = RaftDriver(
            config=config,
            disk=directory.disk,
            clock=self._clock,
            scheduler=self._scheduler,
            random=self._random,
            directory_id=directory.directory_id,
            endpoints=[VoterEndpoint(e.listener_name, e.host, e.port) for e in self._controller_endpoints],
            on_failure=lambda error: self.request_stop(f"the metadata log failed: {error}"),
            cluster_id=self.cluster_id,
            evidence=self._metadata_evidence,
            security=self._security.to_controllers,
        )
        self._undo.push_async_callback(self.raft.stop)
        self._abandon.append(self.raft.abandon)
        self._shared = SharedComponents(
            config=config,
            cluster_id=self.cluster_id,
            clock=self._clock,
            random=self._random,
            new_uuid=self._new_uuid,
            scheduler=self._scheduler,
            endpoints=self.endpoints,
            logs=self.logs,
            metadata=self.metadata,
            dynamic_config=self.dynamic_config,
            raft=self.raft,
            metrics=self.metrics,
            undo=self._undo,
            abandon=self._abandon,
            fail=self.request_stop,
            new_cleaner=self._new_cleaner,
            security=self._security,
            authentication=self._authentication,
            audit=self._audit,
            authorization=self._authorization,
            quotas=self._quotas,
        )
        listeners: list[MetadataLogListener] = [self.metadata]
        if config.is_controller:
            self._controller_role = ControllerRole(self._shared, directory.disk)
            listeners.append(self._controller_role.driver)
        self.gateway = ControllerGateway(
            self.controller,
            None if self._controller_role is None else self._controller_role.serve,
            self.raft,
            self.metadata,
            self._clock,
            node_id=config.node_id,
            request_timeout_ms=config.int("request.timeout.ms"),
            security=self._security.to_controllers,
        )
        self._undo.push_async_callback(self.gateway.stop)
        await self.raft.start(listeners, self.metadata.snapshot_records)
        self.metrics.add(lambda: quorum_families(self.raft))
        self.metrics.add(lambda: controller_families(self.controller, self.metadata))


def _log_manager_settings(config: BrokerConfig) -> dict[str, int]:
    return {
        "delete_delay_ms": config.int("log.segment.delete.delay.ms"),
        "producer_expiration_ms": config.int("producer.id.expiration.ms"),
    }


def _raise_open_file_limit() -> None:
    """Thousands of partitions and connections need more file descriptors than the usual default of 1024."""
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
    forget_abandoned_lookups(loop)
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, node.request_stop)
    garbage = GarbageCollection()
    garbage.start()
    if await _start_unless_stopped(node):
        garbage.loaded()
        on_ready(node)
        await node.wait_for_stop()
        garbage.stop()
        await node.stop()
    return 1 if node.failure else 0


async def _start_unless_stopped(node: Node) -> bool:
    """Returns whether the node has started: a start may wait long for other nodes, and SIGTERM cancels it."""
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(node.wait_for_stop())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        stopping.cancel()
        starting.result()
        return True
    logger.info("node %d was stopped before it had started", node.config.node_id)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    return False
