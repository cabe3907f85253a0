"""Runs the raft machine on the metadata log of this node and feeds committed records to the listeners.

- An append goes to the page cache at once; a shared sync (``group_commit.py``) makes it durable. The machine
  advances the high watermark when a majority has synced, and the feed delivers what is committed.
- A node that does not lead replicates the leader's log. An observer acknowledges nothing, so it leaves
  syncing to the kernel.
- A failed sync or write is final, because the state of the bytes is unknown: the driver resigns, rejects
  appends and reports to ``on_failure``, and the node shuts down. A full disk only rejects the append; a
  follower fetches again.
- A sole voter without changes sets one timer at most: for the next snapshot, if one would add anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ruslo.broker.quorum.catch_up import CatchUp
from ruslo.broker.quorum.checkpoint_file import Checkpoint
from ruslo.broker.quorum.commit_feed import CommitFeed
from ruslo.broker.quorum.group_commit import GroupCommit
from ruslo.broker.quorum.leadership_notifier import LeadershipNotifier
from ruslo.broker.quorum.log_listener import MetadataLogListener
from ruslo.broker.quorum.machine_loop import MachineLoop
from ruslo.broker.quorum.metadata_batches import VersionedRecord
from ruslo.broker.quorum.metadata_evidence import MetadataEvidence
from ruslo.broker.quorum.peers import Peers
from ruslo.broker.quorum.replica_log import ReplicaLog, open_replica
from ruslo.broker.quorum.settings import new_machine, peer_settings
from ruslo.broker.quorum.snapshotter import SnapshotSource, Snapshotter
from ruslo.broker.quorum.startup_checks import check_directory_id, check_log_is_complete
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, Work
from ruslo.config.broker import BrokerConfig
from ruslo.machines.raft.events import (
    Flushed,
    PeerGone,
    RequestReceived,
    SnapshotWritten,
    Started,
    Stopping,
    UpgradeRequested,
)
from ruslo.machines.raft.leader import Progress
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import RaftFetchRequest, RaftRequest, RaftResponse, ReplicaKey
from ruslo.machines.raft.snapshots import NO_SNAPSHOT, SnapshotId, SnapshotPolicy
from ruslo.machines.raft.voters import Endpoint, VoterSet
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.net.channel_security import UNPROTECTED, ChannelSecurity
from ruslo.storage.disk import Disk, DiskError
from ruslo.storage.log_sync import SyncTargets

_RESIGNATION_TIMEOUT_MS = 1_000
"""How long a leader that shuts down waits for the voters to acknowledge the end of its epoch."""

logger = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class RaftDriver:
    config: BrokerConfig
    disk: Disk
    """The metadata log directory, whose id is ``directory_id``."""
    clock: Clock
    scheduler: Scheduler
    random: Random
    directory_id: Uuid
    endpoints: Sequence[Endpoint]
    """This node's controller listeners as other nodes reach them."""
    on_failure: Callable[[BaseException], None]
    cluster_id: str = ""
    evidence: MetadataEvidence | None = None
    """What the metadata log must have contained before; None: not checked."""
    security: ChannelSecurity = UNPROTECTED
    """Of connections to controllers."""

    def __post_init__(self) -> None:
        self._peers = Peers(
            peer_settings(self.config, self.cluster_id),
            security=self.security,
            on_gone=lambda node_id: self._loop.handle(PeerGone(node_id)),
        )
        self._catch_up = CatchUp(self._peers)
        self._replica: ReplicaLog | None = None
        self._commits: GroupCommit | None = None
        self._machine: RaftMachine | None = None
        self._feed: CommitFeed | None = None
        self._leadership: LeadershipNotifier | None = None
        self._snapshotter: Snapshotter | None = None
        self._delivery: Work[None] | None = None
        self._is_delivering = False
        self._stopping = False
        self._stopped = False
        self.failure: BaseException | None = None
        """The error after which this driver rejects appends."""

    # --- state ----------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """-1 without a leader, before the start and after the stop."""
        return NO_NODE if self._machine is None else self._machine.leader_id

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The controller listener of the leader."""
        return None if self._machine is None else self._machine.leader_endpoint

    @property
    def epoch(self) -> int:
        return 0 if self._machine is None else self._machine.epoch

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed; -1 while unknown."""
        return -1 if self._machine is None else self._machine.high_watermark

    @property
    def end_offset(self) -> int:
        return self._open_replica.store.end_offset

    @property
    def start_offset(self) -> int:
        return self._open_replica.store.log.start_offset

    @property
    def applied(self) -> SnapshotId:
        """End offset and epoch of what has been delivered to the listeners."""
        return NO_SNAPSHOT if self._feed is None else self._feed.applied

    @property
    def voters(self) -> VoterSet:
        return self._running.voters

    @property
    def kraft_version(self) -> int:
        return self._running.log.kraft_version

    @property
    def replicas(self) -> Mapping[ReplicaKey, Progress]:
        """On the leader: the progress of the other replicas."""
        return self._running.replicas

    def last_contact_ms(self) -> int:
        """When this node last was in contact with its quorum, on the monotonic clock.

        That is now, except on a leader: when a majority last fetched. A leader that is partitioned away goes
        on leading for a while."""
        contact_ms = None if self._machine is None else self._machine.quorum_contact_ms
        return self.clock.monotonic_ms() if contact_ms is None else contact_ms

    # --- lifecycle ------------------------------------------------------------------------------------------

    async def start(
        self, listeners: Sequence[MetadataLogListener], snapshot_source: SnapshotSource | None = None
    ) -> None:
        """Open the log, join the quorum and deliver what is known to be committed to the listeners.

        ``snapshot_source``: gives the state as records; None: this node takes no snapshots.

        A sole voter leads when this returns; otherwise elections and fetches go on in the background.
        Raises ConfigError if this node belongs to no quorum, StorageError if the log cannot be used.
        """
        config = self.config
        replica = self._replica = open_replica(config, self.disk, self.clock)
        store = replica.store
        commits = self._commits = GroupCommit(store.log, on_synced=self._on_synced, on_failure=self._fail)
        # The offset of a fetch acknowledges everything before it, which a crash may have left unsynced.
        commits.sync_now()
        machine = new_machine(
            config,
            ReplicaKey(config.node_id, self.directory_id),
            tuple(self.endpoints),
            self.random,
            quorum=store.quorum,
            log=replica.view,
        )
        if self.evidence is not None:
            check_log_is_complete(config, store, machine.voters, self.evidence)
        check_directory_id(config, self.disk.directory, self.directory_id, machine.voters)
        policy = SnapshotPolicy(
            max_bytes=config.int("metadata.log.max.record.bytes.between.snapshots"),
            max_interval_ms=config.int("metadata.log.max.snapshot.interval.ms"),
        )
        feed = self._feed = CommitFeed(policy, listeners, replica.read, self.clock)
        leadership = self._leadership = LeadershipNotifier(
            machine, feed, self.append, no_op_interval_ms=config.int("metadata.max.idle.interval.ms")
        )
        if snapshot_source is not None:
            self._snapshotter = Snapshotter(
                snapshot_source,
                policy,
                feed,
                self.clock,
                self.scheduler,
                write=self._write_snapshot,
                resume=self._deliver,
                on_failure=self._on_snapshot_failure,
            )
        self._loop = MachineLoop(
            machine,
            replica,
            feed,
            commits,
            self._peers,
            self.clock,
            syncs_fetched=config.is_controller,
            on_append=leadership.appended,
            on_idle=self._deliver,
            on_failure=self._fail,
        )
        self._machine = machine
        if store.snapshot is not None and store.snapshot_id.offset > 0:
            await self._load_snapshot(feed, store.snapshot_id, store.snapshot)
        self._loop.handle(Started())
        if machine.leads(machine.epoch):
            commits.sync_now()
            await leadership.has_notified.wait()
        if self.failure is not None:
            raise self.failure

    async def _load_snapshot(self, feed: CommitFeed, id: SnapshotId, snapshot: Checkpoint) -> None:
        feed.load_snapshot(id, snapshot.records())
        steps = feed.deliver(lambda: id.offset)
        await self.scheduler.run(steps, priority=Priority.CLUSTER, name="the metadata snapshot")

    async def stop(self) -> None:
        """Commit what was appended, resign and close the log cleanly. May follow a failed start."""
        self._stopping = True
        if self._snapshotter is not None:
            await self._snapshotter.stop()
        if self._commits is not None:
            await self._commits.finish()
        cleanly = self._machine is not None and self.failure is None
        if cleanly:
            self._loop.handle(Stopping())
            self._stop_leadership()
            await self._wait_for_resignation()
        self._stop_machine()
        await self._peers.close()
        if self._replica is not None:
            self._replica.close(cleanly=cleanly)

    def abandon(self) -> None:
        """Release the log without resigning or writing, as if the process had been killed."""
        self._stopping = True
        self._stop_machine(abandon=True)
        self._machine = None
        if self._replica is not None:
            self._replica.close(cleanly=False)

    async def _wait_for_resignation(self) -> None:
        deadline_ms = self.clock.monotonic_ms() + _RESIGNATION_TIMEOUT_MS
        while not self._running.end_epoch_acknowledged and self.clock.monotonic_ms() < deadline_ms:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    # --- appends --------------------------------------------------------------------------------------------

    def append(
        self, epoch: int, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None
    ) -> int:
        """Append the records as one batch, all or none; returns the offset of the last.

        ``values``: the encoded records, if the caller has encoded them.

        The records are committed when ``high_watermark`` is above the offset; then the listeners get them.
        Without records: the offset of the last record in the log. Raises KafkaError: NOT_CONTROLLER if this
        node does not lead ``epoch``, RECORD_LIST_TOO_LARGE, KAFKA_STORAGE_ERROR if the disk is full.
        """
        machine = self._running
        if self._stopping or self.failure is not None or not machine.leads(epoch):
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                f"Node {machine.node_id} does not lead the metadata log in epoch {epoch}",
            )
        if records:
            replica = self._open_replica
            self._loop.append(lambda: replica.append(epoch, records, values))
        return self.end_offset - 1

    async def write_snapshot(self, offset: int, epoch: int, records: Iterable[VersionedRecord]) -> None:
        """Write a snapshot of the state at ``offset`` and move the log start if retention allows it.

        ``offset`` and ``epoch``: ``applied`` when the records were collected. A snapshot older than the
        newest is not written.
        """
        await self._write_snapshot(SnapshotId(offset, epoch), list(records))

    # --- requests of the quorum -----------------------------------------------------------------------------

    def handle_request(self, request: RaftRequest) -> asyncio.Future[RaftResponse]:
        """Handle a request of another node or an admin client."""
        if self._stopped:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "This node is shutting down")
        response: asyncio.Future[RaftResponse] = asyncio.get_running_loop().create_future()
        self._loop.handle(RequestReceived(response, request))
        if isinstance(request, RaftFetchRequest):
            self._watch_voter(request.replica.node_id)
        return response

    async def catch_up(self) -> None:
        """Return when the listeners have everything that is committed on any node by now.

        Raises KafkaError if the leader does not respond.
        """
        await self._catch_up.wait(self._running)

    def upgrade_kraft_version(self) -> asyncio.Future[RaftResponse]:
        """From 0 to 1: the voters are in the log from then on."""
        response: asyncio.Future[RaftResponse] = asyncio.get_running_loop().create_future()
        self._loop.handle(UpgradeRequested(response))
        return response

    def _watch_voter(self, node_id: int) -> None:
        """A leader holds a connection to each voter that fetches, to notice when its process ends."""
        machine = self._running
        if machine.leads(machine.epoch) and node_id in machine.voters.ids and node_id != machine.node_id:
            endpoint = machine.address_of(node_id)
            if endpoint is not None:
                self._peers.watch(node_id, endpoint)

    # --- committed records ----------------------------------------------------------------------------------

    @property
    def _open_replica(self) -> ReplicaLog:
        assert self._replica is not None, "the driver has been started"
        return self._replica

    @property
    def _running(self) -> RaftMachine:
        assert self._machine is not None, "the driver has been started"
        return self._machine

    def _on_synced(self, targets: SyncTargets) -> None:
        if self.failure is None and self._open_replica.store.mark_flushed(targets) and self._machine:
            self._loop.handle(Flushed(targets.end_offset))

    def _deliver(self) -> None:
        """Deliver what is committed, notify of leader changes and take a snapshot if one is due."""
        if self.failure is not None or self._machine is None:
            return
        assert self._feed is not None, "there is a feed with the machine"
        self._open_replica.store.log.advance_high_watermark(self._machine.high_watermark)
        if not self._is_delivering:
            self._is_delivering = True
            steps = self._deliver_committed(self._feed, self._machine)
            self._delivery = self.scheduler.run(
                steps, priority=Priority.CLUSTER, name="committed metadata records"
            )
        if self._is_delivering:
            self._delivered()

    def _deliver_committed(self, feed: CommitFeed, machine: RaftMachine) -> Steps[None]:
        try:
            for _ in feed.deliver(lambda: machine.high_watermark):
                self._catch_up.advance(feed.applied.offset)
                yield
        except Exception as error:
            # A listener that failed to apply a committed record must not continue with inconsistent state.
            logger.exception("failed to apply a committed metadata record")
            self._fail(error)
        finally:
            self._is_delivering = False
        self._delivered()

    def _delivered(self) -> None:
        if self.failure is not None or self._machine is None:
            return
        self._catch_up.advance(self.applied.offset)
        if self._leadership is not None and not self._stopping:
            self._leadership.update()
        if self._snapshotter is not None:
            self._snapshotter.check()

    def _stop_leadership(self) -> None:
        if self._leadership is not None:
            self._leadership.stop()

    def _stop_machine(self, *, abandon: bool = False) -> None:
        self._stopped = True
        if self._machine is not None:
            self._loop.stop(abandon=abandon)
        if self._delivery is not None:
            self._delivery.cancel()

    # --- snapshots and failures -----------------------------------------------------------------------------

    async def _write_snapshot(self, id: SnapshotId, records: list[VersionedRecord]) -> None:
        written = await self._open_replica.write_snapshot(
            id,
            records,
            high_watermark=self._running.high_watermark,
            max_retention_bytes=self.config.int("metadata.max.retention.bytes"),
            max_retention_ms=self.config.int("metadata.max.retention.ms"),
        )
        if written:
            self._loop.handle(SnapshotWritten(id, self.start_offset))

    def _on_snapshot_failure(self, error: BaseException) -> None:
        if isinstance(error, DiskError) and error.disk_full:
            logger.error(
                "metadata snapshot failed: %s. The log keeps growing until a snapshot succeeds", error
            )
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Stop leading and report the first failure."""
        if self.failure is not None:
            return
        self.failure = error
        logger.critical("the metadata log failed: %s", error)
        if self._machine is not None:
            self._loop.handle(Stopping())
        self._stop_machine()
        try:
            self._stop_leadership()
        finally:
            self.on_failure(error)
