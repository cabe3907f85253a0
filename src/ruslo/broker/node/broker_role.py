"""What a node does as a broker, in the order of its start: register, load the logs, coordinate, serve."""

from __future__ import annotations

import asyncio
import logging

from ruslo.broker.controller.alter_partition_manager import AlterPartitionManager
from ruslo.broker.controller.broker_lifecycle import (
    SECURITY_PROTOCOL_IDS,
    BrokerIdentity,
    BrokerLifecycle,
    LifecycleState,
)
from ruslo.broker.controller.directory_assignments import DirectoryAssignments
from ruslo.broker.controller.producer_ids import ProducerIds
from ruslo.broker.coordinators.groups.coordinator import GroupCoordinator
from ruslo.broker.coordinators.runtime.internal_topic import (
    OFFSETS_PLAN,
    TRANSACTIONS_PLAN,
    InternalTopic,
    TopicPlan,
)
from ruslo.broker.coordinators.txns.coordinator import TransactionCoordinator
from ruslo.broker.coordinators.txns.markers import MarkerWriter
from ruslo.broker.coordinators.txns.offset_commits import TransactionalOffsetCommits
from ruslo.broker.dispatch.api_table import broker_apis, broker_catalog
from ruslo.broker.dispatch.dispatcher import Dispatcher
from ruslo.broker.handlers.fetch import FetchHandler
from ruslo.broker.handlers.produce import ProduceHandler
from ruslo.broker.handlers.services import Services
from ruslo.broker.metadata.broker_links import BrokerLinks
from ruslo.broker.metadata.topic_responses import TopicResponses
from ruslo.broker.metrics.group_source import GroupSource
from ruslo.broker.metrics.partition_source import (
    compaction_families,
    log_families,
    replica_families,
    scrub_families,
)
from ruslo.broker.metrics.traffic_source import traffic_families
from ruslo.broker.node.base import NodeBase
from ruslo.broker.node.server_limits import server_limits
from ruslo.broker.node.startup_responses import StartupResponses
from ruslo.broker.partitions.compaction import Compaction
from ruslo.broker.partitions.fetcher import FetcherSettings
from ruslo.broker.partitions.fetchers import ReplicaFetchers
from ruslo.broker.partitions.isr_expansion import IsrExpansion
from ruslo.broker.partitions.leader import IsrChanges, ReplicationSettings
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.periodic_tasks import PeriodicTasks
from ruslo.broker.partitions.preferred_read_replica import RACK_AWARE_SELECTOR, ReplicaSelector
from ruslo.broker.partitions.replica_repair import ReplicaRepair
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.broker.partitions.scrubber import Scrubber
from ruslo.broker.partitions.transactional_appends import TransactionalAppends
from ruslo.broker.partitions.txn_verification import TransactionVerifier
from ruslo.broker.quorum.metadata_evidence import MetadataEvidence
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.broker_image import Endpoint as RegisteredEndpoint
from ruslo.machines.fetch_session import FetchSessionCache
from ruslo.net.channel import ChannelSettings
from ruslo.net.server import Server

logger = logging.getLogger(__name__)

CONTROLLED_SHUTDOWN_TIMEOUT_MS = 30_000


class BrokerRole:
    def __init__(self, base: NodeBase, server: Server) -> None:
        """``server``: bound to the client listeners, not accepting yet."""
        self._base = base
        self._server = server
        config = base.config
        identity = BrokerIdentity(
            broker_id=config.node_id,
            cluster_id=base.cluster_id,
            endpoints=[
                RegisteredEndpoint(
                    e.listener_name, e.host, e.port, SECURITY_PROTOCOL_IDS[e.security_protocol]
                )
                for e in base.endpoints
            ],
            log_dirs=[
                each.directory_id for each in base.logs.directories if each.online and each.holds_partitions
            ],
            rack=config.opt_str("broker.rack"),
            previous_epoch=base.logs.previous_broker_epoch,
            incarnation_id=base.new_uuid(),
        )
        self.lifecycle = BrokerLifecycle(
            identity,
            base.gateway,
            base.metadata,
            base.raft,
            clock=base.clock,
            heartbeat_interval_ms=config.int("broker.heartbeat.interval.ms"),
            session_timeout_ms=config.int("broker.session.timeout.ms"),
            registration_timeout_ms=config.int("initial.broker.registration.timeout.ms"),
            offline_log_dirs=base.logs.offline_directory_ids,
            cordoned_log_dirs=base.logs.cordoned_directory_ids,
            lost_directory_timeout_ms=config.int("log.dir.failure.timeout.ms"),
            on_failure=base.fail,
        )
        self.has_loaded = False
        self._cordon(base.dynamic_config.current)
        base.dynamic_config.subscribe(self._cordon)

    def _cordon(self, current: BrokerConfig) -> None:
        self._base.logs.cordon(current.cordoned_log_dirs)
        self.lifecycle.report_cordons()

    async def start(self) -> None:
        """Return when clients may connect."""
        self._base.undo.push_async_callback(self._leave_cluster)
        await self.lifecycle.register()
        MetadataEvidence.of(self._base.logs).check_epoch(self.lifecycle.epoch)
        await self._load_logs()
        self._start_coordinators()
        await self._serve()

    async def _leave_cluster(self) -> None:
        """Controlled shutdown, once: before connections close, or when the start failed before there were
        any."""
        if self._base.raft.failure is not None or self.lifecycle.state is LifecycleState.STOPPING:
            return
        if self._base.config.bool("controlled.shutdown.enable"):
            await self.lifecycle.shut_down(timeout_ms=CONTROLLED_SHUTDOWN_TIMEOUT_MS)
        else:
            # The controller detects it later, as it detects a killed broker.
            self.lifecycle.abandon()

    async def _load_logs(self) -> None:
        base, config = self._base, self._base.config
        threads = base.dynamic_config.current.int("num.recovery.threads.per.data.dir")
        if not base.logs.was_clean:
            # Recovery reads every unsynced segment: clients can query its progress.
            await self._server.start(StartupResponses(base.logs).handle_frame)
        # Even after a clean shutdown thousands of logs take a while, and heartbeats must go on meanwhile.
        await asyncio.to_thread(base.logs.load, base.dynamic_config.log_config, recovery_threads=threads)
        self.has_loaded = True
        assignments = DirectoryAssignments(
            base.gateway,
            broker_id=config.node_id,
            broker_epoch=self._epoch,
            report_failed_directory=self.lifecycle.report_failed_directory,
        )
        base.undo.push_async_callback(assignments.stop)
        proposals = AlterPartitionManager(base.gateway, broker_id=config.node_id, broker_epoch=self._epoch)
        base.undo.push_async_callback(proposals.stop)
        fetchers = ReplicaFetchers(base.address_of, self._fetcher_settings())
        self.topic_responses = TopicResponses(base.metadata, fetchers.lost_leaders)
        isr_changes = IsrChanges()
        self.partitions = PartitionManager(
            config.node_id,
            base.logs,
            base.dynamic_config,
            assignments,
            ReplicationSettings(
                base.metadata,
                config.int("replica.lag.time.max.ms"),
                base.clock,
                proposals.propose,
                self._replication_quota("leader.replication.throttled.rate"),
                IsrExpansion(base.scheduler),
                isr_changes,
            ),
            fetchers,
            config.metadata_log_dir,
            base.metrics.traffic,
            base.fail,
            base.scheduler,
        )
        base.undo.push_async_callback(self.partitions.close)
        base.metadata.subscribe(self.partitions.apply, self.partitions.applied)
        await self.partitions.applied()
        self.partitions.mark_strays()
        # Once unfenced, this broker could be elected because of data that it has lost.
        await assignments.lost_replicas_reported()
        periodic_tasks = PeriodicTasks(config, base.logs, self.partitions, base.scheduler)
        base.undo.push_async_callback(periodic_tasks.stop)
        periodic_tasks.start()
        self.compaction = Compaction(
            base.dynamic_config, base.logs, self.partitions, base.scheduler, base.new_cleaner
        )
        base.undo.push_async_callback(self.compaction.stop)
        base.abandon.append(self.compaction.abandon)
        self.compaction.start()
        repair = ReplicaRepair(
            config.node_id, lambda: base.metadata.image, self.partitions, self.compaction, self._links()
        )
        self.scrubber = Scrubber(base.dynamic_config, base.logs, self.partitions.storage_failed, repair)
        base.undo.push_async_callback(self.scrubber.stop)
        self.scrubber.start()
        metrics = base.metrics
        metrics.add(lambda: traffic_families(metrics.traffic))
        metrics.add(lambda: replica_families(self.partitions, proposals, isr_changes))
        metrics.add(lambda: compaction_families(self.compaction))
        metrics.add(lambda: scrub_families(self.scrubber))
        metrics.add(lambda: log_families(self.partitions))

    def _epoch(self) -> int:
        return self.lifecycle.epoch

    def _fetcher_settings(self) -> FetcherSettings:
        config = self._base.config
        return FetcherSettings(
            node_id=config.node_id,
            broker_epoch=self._epoch,
            clock=self._base.clock,
            max_wait_ms=config.int("replica.fetch.wait.max.ms"),
            min_bytes=config.int("replica.fetch.min.bytes"),
            max_bytes=config.int("replica.fetch.response.max.bytes"),
            max_partition_bytes=config.int("replica.fetch.max.bytes"),
            max_backoff_ms=config.int("replica.fetch.backoff.ms"),
            connection=ChannelSettings(
                client_id=f"broker-{config.node_id}-fetcher-0",
                request_timeout_ms=config.int("replica.socket.timeout.ms"),
            ),
            quota=self._replication_quota("follower.replication.throttled.rate"),
            storage_failed=lambda error: self.partitions.storage_failed(error),
            on_truncated=self._base.logs.checkpoint_truncated,
        )

    def _replication_quota(self, key: str) -> ReplicationQuota:
        return ReplicationQuota(lambda: self._base.dynamic_config.dynamic_rate(key), self._base.clock)

    def _start_coordinators(self) -> None:
        base, config = self._base, self._base.config
        self._producer_ids = ProducerIds(base.gateway, broker_id=config.node_id, broker_epoch=self._epoch)
        base.undo.push_async_callback(self._producer_ids.stop)
        self.groups = GroupCoordinator(
            config,
            base.dynamic_config,
            base.metadata,
            self.partitions,
            base.clock,
            base.scheduler,
            has_session=lambda: self.lifecycle.has_session,
            new_uuid=base.new_uuid,
        )
        base.undo.push_async_callback(self.groups.stop)
        self._markers = MarkerWriter(
            self.partitions, self.groups, base.clock, base.scheduler, config.int("request.timeout.ms")
        )
        links = self._links()
        lag = GroupSource(self.groups, self.partitions, base.metadata, links, base.scheduler)
        base.metrics.add(lag.families, before=lag.refresh)
        self.transactions = TransactionCoordinator(
            config,
            base.dynamic_config,
            base.metadata,
            self.partitions,
            self._producer_ids,
            self._markers,
            links,
            base.clock,
            base.scheduler,
            node_id=config.node_id,
            offsets_partition_of=self.groups.partition_of,
        )
        base.undo.push_async_callback(self.transactions.stop)

    def _links(self) -> BrokerLinks:
        config = self._base.config
        links = BrokerLinks(
            self._base.address_of,
            ChannelSettings(
                client_id=f"broker-{config.node_id}",
                request_timeout_ms=config.int("request.timeout.ms"),
            ),
        )
        self._base.undo.push_async_callback(links.stop)
        return links

    def _internal_topic(self, plan: TopicPlan) -> InternalTopic:
        topic = InternalTopic(plan, lambda: self._base.dynamic_config.current, self._base.gateway)
        self._base.undo.push_async_callback(topic.stop)
        return topic

    async def _serve(self) -> None:
        base, config = self._base, self._base.config
        verifier = TransactionVerifier(self.transactions, self.transactions.verify_locally)
        services = Services(
            config=config,
            node_id=config.node_id,
            cluster_id=base.cluster_id,
            clock=base.clock,
            scheduler=base.scheduler,
            metadata=base.metadata,
            topic_responses=self.topic_responses,
            controller=base.gateway,
            raft=base.raft,
            partitions=self.partitions,
            logs=base.logs,
            dynamic_config=base.dynamic_config,
            producer_ids=self._producer_ids,
            assignor_error=self.groups.assignor_error,
            groups=self.groups,
            lost_data=base.logs.lost_data,
            apis=broker_catalog(),
            offsets_topic=self._internal_topic(OFFSETS_PLAN),
            transactions=self.transactions,
            transactions_topic=self._internal_topic(TRANSACTIONS_PLAN),
            transactional_commits=TransactionalOffsetCommits(
                verifier, self.groups, self.partitions, lambda: base.dynamic_config.current, base.clock
            ),
            markers=self._markers,
        )
        transactional = TransactionalAppends(verifier, lambda: base.dynamic_config.current, base.clock)
        selector = ReplicaSelector(
            base.metadata,
            node_id=config.node_id,
            rack_aware=config.opt_str("replica.selector.class") == RACK_AWARE_SELECTOR,
        )
        requests = base.metrics.requests
        produce = ProduceHandler(
            self.partitions, transactional, base.metadata, base.clock, requests.of("Produce")
        )
        fetch = FetchHandler(
            self.partitions,
            base.metadata,
            selector,
            base.clock,
            requests.of("Fetch"),
            config.int("fetch.max.bytes"),
            FetchSessionCache(config.int("max.incremental.fetch.session.cache.slots"), base.random),
        )
        base.dynamic_config.subscribe(lambda current: self._server.limit(server_limits(current)))
        await self.lifecycle.unfence()
        dispatcher = Dispatcher(services, broker_apis(produce, fetch), requests)
        await self._server.start(dispatcher.handle_frame)
        # Connections close before anything that serves them; closing a server twice is harmless.
        base.undo.push_async_callback(self._server.close)
        # While leaderships move, clients still learn here where they went.
        base.undo.push_async_callback(self._leave_cluster)
