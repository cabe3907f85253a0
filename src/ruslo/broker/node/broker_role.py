"""What a node does as a broker, in the order of its start: register, load the logs, coordinate, serve."""

from __future__ import annotations

import asyncio
import logging

from ruslo.broker.controller.alter_partition_manager import AlterPartitionManager
from ruslo.broker.controller.broker_lifecycle import (
    BrokerIdentity,
    BrokerLifecycle,
    LifecycleState,
    registered_endpoints,
)
from ruslo.broker.controller.directory_assignments import DirectoryAssignments
from ruslo.broker.controller.gateway import ControllerGateway
from ruslo.broker.controller.producer_ids import ProducerIds
from ruslo.broker.coordinators.groups.coordinator import GroupCoordinator
from ruslo.broker.coordinators.groups.internal_topics import InternalTopicCreator
from ruslo.broker.coordinators.groups.share_offsets import ShareOffsets
from ruslo.broker.coordinators.groups.share_states import ShareStates
from ruslo.broker.coordinators.runtime.internal_topic import (
    OFFSETS_PLAN,
    SHARE_STATE_PLAN,
    TRANSACTIONS_PLAN,
    InternalTopic,
    TopicPlan,
)
from ruslo.broker.coordinators.share.coordinator import ShareCoordinator
from ruslo.broker.coordinators.share.persister import SharePersister
from ruslo.broker.coordinators.txns.coordinator import TransactionCoordinator
from ruslo.broker.coordinators.txns.markers import MarkerWriter
from ruslo.broker.coordinators.txns.offset_commits import TransactionalOffsetCommits
from ruslo.broker.dispatch.api_table import broker_apis, broker_catalog, unauthenticated_apis
from ruslo.broker.dispatch.dispatcher import Dispatcher
from ruslo.broker.handlers.fetch import FetchHandler
from ruslo.broker.handlers.produce import ProduceHandler
from ruslo.broker.handlers.services import Services
from ruslo.broker.metadata.broker_links import BrokerLinks
from ruslo.broker.metadata.topic_responses import TopicResponses
from ruslo.broker.metrics.client_source import client_families
from ruslo.broker.metrics.group_source import GroupSource
from ruslo.broker.metrics.partition_source import (
    compaction_families,
    log_families,
    replica_families,
    scrub_families,
)
from ruslo.broker.metrics.share_source import share_families
from ruslo.broker.metrics.traffic_source import traffic_families
from ruslo.broker.node.server_limits import server_limits
from ruslo.broker.node.shared_components import SharedComponents
from ruslo.broker.node.startup_responses import StartupResponses
from ruslo.broker.partitions.compaction import Compaction
from ruslo.broker.partitions.end_offsets import EndOffsets
from ruslo.broker.partitions.fetcher import FetcherSettings
from ruslo.broker.partitions.fetchers import ReplicaFetchers
from ruslo.broker.partitions.isr_expansion import IsrExpansion
from ruslo.broker.partitions.leader import IsrChanges, ReplicationSettings
from ruslo.broker.partitions.log_dir_moves import LogDirMoves
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.periodic_tasks import PeriodicTasks
from ruslo.broker.partitions.preferred_read_replica import RACK_AWARE_SELECTOR, ReplicaSelector
from ruslo.broker.partitions.replica_repair import ReplicaRepair
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.broker.partitions.scrubber import Scrubber
from ruslo.broker.partitions.transactional_appends import TransactionalAppends
from ruslo.broker.partitions.txn_verification import TransactionVerifier
from ruslo.broker.quorum.metadata_evidence import MetadataEvidence
from ruslo.broker.share_partitions.dead_letter_topic import DeadLetterTopics
from ruslo.broker.share_partitions.manager import SharePartitionManager
from ruslo.broker.telemetry.client_telemetry import ClientTelemetry
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.features import supported_features
from ruslo.machines.fetch_session import FetchSessionCache
from ruslo.net.channel import ChannelSettings
from ruslo.net.server import Server

logger = logging.getLogger(__name__)

CONTROLLED_SHUTDOWN_TIMEOUT_MS = 30_000


class BrokerRole:
    def __init__(self, shared: SharedComponents, gateway: ControllerGateway, server: Server) -> None:
        """``server``: bound to the client listeners, not accepting yet."""
        self._shared = shared
        self._gateway = gateway
        self._server = server
        config = shared.config
        identity = BrokerIdentity(
            broker_id=config.node_id,
            cluster_id=shared.cluster_id,
            endpoints=registered_endpoints(shared.endpoints),
            log_dirs=[
                each.directory_id for each in shared.logs.directories if each.online and each.holds_partitions
            ],
            rack=config.opt_str("broker.rack"),
            previous_epoch=shared.logs.previous_broker_epoch,
            incarnation_id=shared.new_uuid(),
            features=supported_features(unstable=config.bool("unstable.feature.versions.enable")),
        )
        self.lifecycle = BrokerLifecycle(
            identity,
            self._gateway,
            shared.metadata,
            shared.raft,
            clock=shared.clock,
            heartbeat_interval_ms=config.int("broker.heartbeat.interval.ms"),
            session_timeout_ms=config.int("broker.session.timeout.ms"),
            registration_timeout_ms=config.int("initial.broker.registration.timeout.ms"),
            offline_log_dirs=shared.logs.offline_directory_ids,
            cordoned_log_dirs=shared.logs.cordoned_directory_ids,
            lost_directory_timeout_ms=config.int("log.dir.failure.timeout.ms"),
            on_failure=shared.fail,
        )
        self.has_loaded = False
        self._cordon(shared.dynamic_config.current)
        shared.dynamic_config.subscribe(self._cordon)

    def _cordon(self, current: BrokerConfig) -> None:
        self._shared.logs.cordon(current.cordoned_log_dirs)
        self.lifecycle.report_cordons()

    async def start(self) -> None:
        """Return when clients may connect."""
        self._shared.undo.push_async_callback(self._leave_cluster)
        await self.lifecycle.register()
        MetadataEvidence.of(self._shared.logs).check_epoch(self.lifecycle.epoch)
        await self._load_logs()
        self._start_coordinators()
        await self._serve()

    async def _leave_cluster(self) -> None:
        """Controlled shutdown, once: before connections close, or when the start failed before there were
        any."""
        if self._shared.raft.failure is not None or self.lifecycle.state is LifecycleState.STOPPING:
            return
        if self._shared.config.bool("controlled.shutdown.enable"):
            await self.lifecycle.shut_down(timeout_ms=CONTROLLED_SHUTDOWN_TIMEOUT_MS)
        else:
            # The controller detects it later, as it detects a killed broker.
            self.lifecycle.abandon()

    async def _load_logs(self) -> None:
        shared, config = self._shared, self._shared.config
        threads = shared.dynamic_config.current.int("num.recovery.threads.per.data.dir")
        if not shared.logs.was_clean:
            # Recovery reads every unsynced segment: clients can query its progress.
            progress = StartupResponses(shared.logs, is_open=shared.authorization is None)
            await self._server.start(progress.handle_frame, progress.refuse)
        # Even after a clean shutdown thousands of logs take a while, and heartbeats must go on meanwhile.
        await asyncio.to_thread(shared.logs.load, shared.dynamic_config.log_config, recovery_threads=threads)
        self.has_loaded = True
        assignments = DirectoryAssignments(
            self._gateway,
            broker_id=config.node_id,
            broker_epoch=self._epoch,
            report_failed_directory=self.lifecycle.report_failed_directory,
        )
        shared.undo.push_async_callback(assignments.stop)
        proposals = AlterPartitionManager(
            self._gateway, shared.scheduler, broker_id=config.node_id, broker_epoch=self._epoch
        )
        shared.undo.push_async_callback(proposals.stop)
        fetchers = ReplicaFetchers(shared.address_of, self._fetcher_settings())
        self.topic_responses = TopicResponses(shared.metadata, fetchers.lost_leaders)
        isr_changes = IsrChanges()
        self.partitions = PartitionManager(
            config.node_id,
            shared.logs,
            shared.dynamic_config,
            assignments,
            ReplicationSettings(
                shared.metadata,
                config.int("replica.lag.time.max.ms"),
                shared.clock,
                proposals.propose,
                self._replication_quota("leader.replication.throttled.rate"),
                IsrExpansion(shared.scheduler),
                isr_changes,
            ),
            fetchers,
            config.metadata_log_dir,
            shared.metrics.traffic,
            shared.fail,
            shared.scheduler,
        )
        shared.undo.push_async_callback(self.partitions.close)
        shared.metadata.subscribe(self.partitions.apply, self.partitions.applied)
        await self.partitions.applied()
        self.partitions.mark_strays()
        # Once unfenced, this broker could be elected because of data that it has lost.
        await assignments.lost_replicas_reported()
        periodic_tasks = PeriodicTasks(config, shared.logs, self.partitions, shared.scheduler)
        shared.undo.push_async_callback(periodic_tasks.stop)
        periodic_tasks.start()
        self.compaction = Compaction(
            shared.dynamic_config, shared.logs, self.partitions, shared.scheduler, shared.new_cleaner
        )
        shared.undo.push_async_callback(self.compaction.stop)
        shared.abandon.append(self.compaction.abandon)
        self.compaction.start()
        self._log_dir_moves = LogDirMoves(
            shared.logs,
            self.partitions,
            assignments,
            self.compaction,
            self._replication_quota("replica.alter.log.dirs.io.max.bytes.per.second"),
            shared.scheduler,
        )
        shared.undo.push_async_callback(self._log_dir_moves.stop)
        self._log_dir_moves.start_remaining()
        repair = ReplicaRepair(
            config.node_id, lambda: shared.metadata.image, self.partitions, self.compaction, self._links()
        )
        self.scrubber = Scrubber(shared.dynamic_config, shared.logs, self.partitions.storage_failed, repair)
        shared.undo.push_async_callback(self.scrubber.stop)
        self.scrubber.start()
        metrics = shared.metrics
        metrics.add(lambda: traffic_families(metrics.traffic))
        metrics.add(lambda: replica_families(self.partitions, proposals, isr_changes))
        metrics.add(lambda: compaction_families(self.compaction))
        metrics.add(lambda: scrub_families(self.scrubber))
        metrics.add(lambda: log_families(self.partitions))

    def _epoch(self) -> int:
        return self.lifecycle.epoch

    def _fetcher_settings(self) -> FetcherSettings:
        config = self._shared.config
        return FetcherSettings(
            node_id=config.node_id,
            broker_epoch=self._epoch,
            clock=self._shared.clock,
            max_wait_ms=config.int("replica.fetch.wait.max.ms"),
            min_bytes=config.int("replica.fetch.min.bytes"),
            max_bytes=config.int("replica.fetch.response.max.bytes"),
            max_partition_bytes=config.int("replica.fetch.max.bytes"),
            max_backoff_ms=config.int("replica.fetch.backoff.ms"),
            connection=ChannelSettings(
                client_id=f"broker-{config.node_id}-fetcher-0",
                request_timeout_ms=config.int("replica.socket.timeout.ms"),
                security=self._shared.security.to_brokers,
            ),
            quota=self._replication_quota("follower.replication.throttled.rate"),
            storage_failed=lambda error: self.partitions.storage_failed(error),
            on_truncated=self._shared.logs.checkpoint_truncated,
        )

    def _replication_quota(self, key: str) -> ReplicationQuota:
        return ReplicationQuota(lambda: self._shared.dynamic_config.dynamic_rate(key), self._shared.clock)

    def _start_coordinators(self) -> None:
        shared, config = self._shared, self._shared.config
        self._producer_ids = ProducerIds(self._gateway, broker_id=config.node_id, broker_epoch=self._epoch)
        shared.undo.push_async_callback(self._producer_ids.stop)
        links = self._links()
        self.shares = ShareCoordinator(
            config, shared.metadata, self.partitions, shared.clock, shared.scheduler
        )
        shared.undo.push_async_callback(self.shares.stop)
        self._share_state_topic = self._internal_topic(SHARE_STATE_PLAN)
        self.share_persister = SharePersister(
            self.shares, self._share_state_topic, shared.metadata, links, config.node_id
        )
        self.groups = GroupCoordinator(
            config,
            shared.dynamic_config,
            shared.metadata,
            self.partitions,
            shared.clock,
            shared.scheduler,
            share_states=ShareStates(self.share_persister),
            has_session=lambda: self.lifecycle.has_session,
            new_uuid=shared.new_uuid,
            authorization=shared.authorization,
        )
        shared.undo.push_async_callback(self.groups.stop)
        self._streams_topics = InternalTopicCreator(self._gateway, shared.clock)
        shared.undo.push_async_callback(self._streams_topics.stop)
        self._markers = MarkerWriter(
            self.partitions, self.groups, shared.clock, shared.scheduler, config.int("request.timeout.ms")
        )
        request_timeout_s = config.int("request.timeout.ms") / 1000
        ends = EndOffsets(self.partitions, shared.metadata, links, request_timeout_s)
        self._share_offsets = ShareOffsets(self.groups, self.share_persister, shared.metadata, ends)
        lag = GroupSource(self.groups, self.partitions, shared.metadata, links, shared.scheduler)
        shared.metrics.add(lag.families, before=lag.refresh)
        self.transactions = TransactionCoordinator(
            config,
            shared.dynamic_config,
            shared.metadata,
            self.partitions,
            self._producer_ids,
            self._markers,
            links,
            shared.clock,
            shared.scheduler,
            node_id=config.node_id,
            offsets_partition_of=self.groups.partition_of,
        )
        shared.undo.push_async_callback(self.transactions.stop)
        self.share_partitions = SharePartitionManager(
            shared.dynamic_config,
            shared.metadata,
            self.partitions,
            self.share_persister,
            DeadLetterTopics(
                shared.dynamic_config,
                shared.metadata,
                self.partitions,
                links,
                self._gateway,
                shared.clock,
                config.node_id,
            ),
            shared.clock,
            shared.scheduler,
        )
        shared.undo.push_async_callback(self.share_partitions.stop)
        shared.metrics.add(lambda: share_families(self.share_partitions))

    def _links(self) -> BrokerLinks:
        config = self._shared.config
        links = BrokerLinks(
            self._shared.address_of,
            ChannelSettings(
                client_id=f"broker-{config.node_id}",
                request_timeout_ms=config.int("request.timeout.ms"),
                security=self._shared.security.to_brokers,
            ),
        )
        self._shared.undo.push_async_callback(links.stop)
        return links

    def _internal_topic(self, plan: TopicPlan) -> InternalTopic:
        topic = InternalTopic(plan, lambda: self._shared.dynamic_config.current, self._gateway)
        self._shared.undo.push_async_callback(topic.stop)
        return topic

    async def _serve(self) -> None:
        shared, config = self._shared, self._shared.config
        verifier = TransactionVerifier(self.transactions, self.transactions.verify_locally)
        self.telemetry = ClientTelemetry(
            shared.metadata,
            shared.clock,
            shared.scheduler,
            config.int("telemetry.max.bytes"),
            shared.new_uuid,
        )
        shared.metrics.add(lambda: client_families(self.telemetry))
        services = Services(
            config=config,
            node_id=config.node_id,
            cluster_id=shared.cluster_id,
            clock=shared.clock,
            scheduler=shared.scheduler,
            metadata=shared.metadata,
            topic_responses=self.topic_responses,
            telemetry=self.telemetry,
            controller=self._gateway,
            raft=shared.raft,
            partitions=self.partitions,
            logs=shared.logs,
            dynamic_config=shared.dynamic_config,
            producer_ids=self._producer_ids,
            assignor_error=self.groups.assignor_error,
            groups=self.groups,
            lost_data=shared.logs.lost_data,
            apis=broker_catalog(unstable=config.bool("unstable.api.versions.enable")),
            authentication=shared.authentication,
            audit=shared.audit,
            authorization=shared.authorization,
            quotas=shared.quotas,
            check_config=shared.security.check,
            gateway=self._gateway,
            offsets_topic=self._internal_topic(OFFSETS_PLAN),
            streams_topics=self._streams_topics,
            transactions=self.transactions,
            transactions_topic=self._internal_topic(TRANSACTIONS_PLAN),
            transactional_commits=TransactionalOffsetCommits(
                verifier, self.groups, self.partitions, lambda: shared.dynamic_config.current, shared.clock
            ),
            shares=self.shares,
            share_offsets=self._share_offsets,
            share_state_topic=self._share_state_topic,
            share_partitions=self.share_partitions,
            markers=self._markers,
            log_dir_moves=self._log_dir_moves,
        )
        transactional = TransactionalAppends(verifier, lambda: shared.dynamic_config.current, shared.clock)
        selector = ReplicaSelector(
            shared.metadata,
            node_id=config.node_id,
            rack_aware=config.opt_str("replica.selector.class") == RACK_AWARE_SELECTOR,
        )
        requests = shared.metrics.requests
        produce = ProduceHandler(
            self.partitions, transactional, shared.metadata, shared.clock, requests.of("Produce")
        )
        fetch = FetchHandler(
            self.partitions,
            shared.metadata,
            selector,
            shared.clock,
            requests.of("Fetch"),
            config.int("fetch.max.bytes"),
            FetchSessionCache(config.int("max.incremental.fetch.session.cache.slots"), shared.random),
        )
        shared.dynamic_config.subscribe(lambda current: self._server.limit(server_limits(current)))
        await self.lifecycle.unfence()
        apis = broker_apis(produce, fetch, unstable=shared.config.bool("unstable.api.versions.enable"))
        dispatcher = Dispatcher(services, apis, requests)
        unauthenticated = Dispatcher(services, unauthenticated_apis(), requests)
        await self._server.start(dispatcher.handle_frame, unauthenticated.handle_frame)
        # Connections close before anything that serves them; closing a server twice is harmless.
        shared.undo.push_async_callback(self._server.close)
        # While leaderships move, clients still learn here where they went.
        shared.undo.push_async_callback(self._leave_cluster)
