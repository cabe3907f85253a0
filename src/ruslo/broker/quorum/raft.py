"""Runs the raft machine: owns the metadata log on disk, talks to the other nodes, feeds those who listen.

An append is written into the page cache at once; a sync, shared with others (``group_commit.py``), makes it
durable. Then the machine moves the high watermark, when a majority has it, and the feed hands out what has
committed. A node that does not lead takes its log from the leader; an observer, which acknowledges nothing,
leaves syncing to the kernel.

A failed sync or write is final: nothing is known about the bytes any more, so the driver resigns, refuses
appends and reports to ``on_failure``, and the node goes down. A full disk refuses the append and no more; a
node that follows tries again.

A node that sits idle and alone costs nothing here: one timer only, for the next snapshot, and that only while
there is something a snapshot would add.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import cast

from ruslo.broker.quorum.catch_up import CatchUp
from ruslo.broker.quorum.checkpoint_file import Checkpoint
from ruslo.broker.quorum.commit_feed import AppendedBatch, CommitFeed
from ruslo.broker.quorum.group_commit import GroupCommit
from ruslo.broker.quorum.leadership import LeadershipNews
from ruslo.broker.quorum.metadata_batches import VersionedRecord
from ruslo.broker.quorum.metadata_evidence import MetadataEvidence
from ruslo.broker.quorum.metadata_log import MetadataLogListener
from ruslo.broker.quorum.peers import Peers
from ruslo.broker.quorum.replica_log import ReplicaLog, open_replica
from ruslo.broker.quorum.settings import new_machine, peer_settings
from ruslo.broker.quorum.snapshotter import SnapshotSource, Snapshotter
from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
from ruslo.config.broker import BrokerConfig
from ruslo.machines.raft.effects import RaftOutcome, SnapshotPiece
from ruslo.machines.raft.events import (
    Answered,
    Appended,
    Asked,
    Flushed,
    PeerGone,
    RaftEvent,
    SnapshotTaken,
    Started,
    Stopping,
    Taken,
    TimerFired,
    Unanswered,
    UpgradeAsked,
)
from ruslo.machines.raft.leader import Progress
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import Answer, Ask, FetchAsk, ReplicaKey
from ruslo.machines.raft.snapshots import SnapshotId, SnapshotPolicy
from ruslo.machines.raft.voters import Endpoint, VoterSet
from ruslo.model.buffers import ReadBuffer
from ruslo.model.clock import Clock
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError, RusloError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_to_text
from ruslo.storage.disk import Disk, DiskError
from ruslo.storage.log_sync import SyncTargets
from ruslo.storage.meta_properties import META_PROPERTIES

_RECORDS_PER_TURN = 125
"""Decoded and handed to every listener before the event loop gets a turn, unless they are a batch."""
_TAKE_PAUSE_S = 0.5
"""Before what could not be appended is fetched again."""
_GOODBYE_MS = 1_000
"""How long a leader that goes down tries to tell the others."""

logger = logging.getLogger(__name__)


class RaftDriver:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        disk: Disk,
        clock: Clock,
        directory_id: Uuid,
        endpoints: Sequence[Endpoint],
        on_failure: Callable[[BaseException], None],
        cluster_id: str = "",
        evidence: MetadataEvidence | None = None,
    ) -> None:
        """``disk``: of the metadata log directory, whose id is ``directory_id``.
        ``endpoints``: this node's controller listeners, as others reach them.
        ``evidence``: what the metadata log must have held before, if that is to be checked."""
        self._evidence = evidence
        self._config = config
        self._disk = disk
        self._clock = clock
        self._directory_id = directory_id
        self._endpoints = tuple(endpoints)
        self._on_failure = on_failure
        self._policy = SnapshotPolicy(
            max_bytes=config.int("metadata.log.max.record.bytes.between.snapshots"),
            max_interval_ms=config.int("metadata.log.max.snapshot.interval.ms"),
        )
        self._feed = CommitFeed(self._policy)
        self._snapshotter = Snapshotter(
            self._policy,
            self._feed,
            clock,
            write=self._write_snapshot,
            resume=self._deliver,
            on_failure=self._snapshot_failed,
        )
        self._peers = Peers(peer_settings(config, cluster_id), on_gone=self._peer_gone)
        self._catch_up = CatchUp(self._peers)
        self._replica: ReplicaLog | None = None
        self._machine: RaftMachine | None = None
        self._commits: GroupCommit | None = None
        self._events: deque[RaftEvent] = deque()
        self._done: deque[RaftEvent] = deque()
        """What the machine asked for and now has: reported before anything else can happen."""
        self._handling = False
        self._timer = DeadlineTimer(clock, self._deadline_ms, lambda: self._handle(TimerFired()))
        self._news: LeadershipNews | None = None
        self._more: asyncio.Handle | None = None
        self._retry: asyncio.Handle | None = None
        self._stopping = False
        self._machine_done = False
        self.failure: BaseException | None = None
        """Why this driver takes no appends any more."""

    # --- where the log stands -------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """-1 when nobody leads, as before the start and after the stop."""
        return NO_NODE if self._machine is None else self._machine.leader_id

    @property
    def node_id(self) -> int:
        return self._config.node_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader's controller listener is."""
        return None if self._machine is None else self._machine.leader_endpoint

    @property
    def epoch(self) -> int:
        return 0 if self._machine is None else self._machine.epoch

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed; -1 as long as nothing is known."""
        return -1 if self._machine is None else self._machine.high_watermark

    @property
    def end_offset(self) -> int:
        return self._open_replica.store.end_offset

    @property
    def start_offset(self) -> int:
        return self._open_replica.store.log.start_offset

    @property
    def applied(self) -> SnapshotId:
        """End offset and epoch of what the listeners have been given."""
        return self._feed.applied

    @property
    def voters(self) -> VoterSet:
        return self._running.voters

    @property
    def kraft_version(self) -> int:
        return self._running.log.kraft_version

    @property
    def replicas(self) -> Mapping[ReplicaKey, Progress]:
        """On the leader: how far the others are."""
        return self._running.replicas

    # --- life -----------------------------------------------------------------------------------------------

    def register(self, listener: MetadataLogListener) -> None:
        """Before ``start``, which gives every listener all there is."""
        assert self._machine is None, "listeners are registered before the start"
        self._feed.listeners.append(listener)

    def snapshot_from(self, source: SnapshotSource) -> None:
        """Where snapshots come from; without it none is taken."""
        self._snapshotter.source = source

    async def start(self) -> None:
        """Open the log and take part in the quorum. Listeners are given what is known to be committed.

        A sole voter leads when this returns; with others, elections and fetches go on in the background.
        Raises ConfigError if this node has no part in any quorum, StorageError if the log cannot be used.
        """
        replica = self._replica = open_replica(self._config, self._disk, self._clock)
        store = replica.store
        commits = self._commits = GroupCommit(store.log, on_synced=self._synced, on_failure=self._fail)
        # The offset of a fetch acknowledges what is before it: a torn stop may have left that unsynced.
        commits.sync_now()
        self._feed.read = replica.read
        key = ReplicaKey(self._config.node_id, self._directory_id)
        machine = self._machine = new_machine(
            self._config, key, self._endpoints, quorum=store.quorum, log=replica.view
        )
        self._check_evidence(replica, machine)
        self._check_directory_id(machine)
        self._news = LeadershipNews(
            machine,
            self._feed,
            self.append,
            idle_interval_ms=self._config.int("metadata.max.idle.interval.ms"),
        )
        if store.snapshot is not None and store.snapshot_id.offset > 0:
            await self._load(store.snapshot_id, store.snapshot)
        self._handle(Started())
        if machine.leads(machine.epoch):
            commits.sync_now()
            while self._news.told is None and self.failure is None:  # noqa: ASYNC110
                await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure

    def _check_evidence(self, replica: ReplicaLog, machine: RaftMachine) -> None:
        if self._evidence is None:
            return
        store, voters = replica.store, set(machine.voters.ids)
        others: set[int] | None = voters - {self._config.node_id}
        if not voters and self._config.is_controller and len(self._config.quorum_bootstrap_servers) < 2:
            others = None
        elif not voters or self._config.node_id not in voters:
            # An observer: its voters have the log.
            return
        self._evidence.check_log(store.directory, max(store.end_offset, store.snapshot_id.offset), others)

    def _check_directory_id(self, machine: RaftMachine) -> None:
        """A voter with another directory id is unknown to its quorum: it is damaged, or the disk is new."""
        known = next((each for each in machine.voters.voters if each.node_id == self._config.node_id), None)
        if known is None or known.directory_id in (ZERO_UUID, self._directory_id):
            return
        problem = (
            f"{self._disk.directory}/{META_PROPERTIES} has directory.id={uuid_to_text(self._directory_id)}, "
            f"but node {self._config.node_id} votes in the metadata quorum with directory.id="
            f"{uuid_to_text(known.directory_id)}. If the file is damaged, write that id into it"
        )
        if len(machine.voters.voters) == 1:
            raise ConfigError(problem)
        logger.error("%s; if the disk is new, replace the voter with 'ruslo cluster voter'", problem)

    async def _load(self, id: SnapshotId, snapshot: Checkpoint) -> None:
        """Nobody is served yet, but for those who watch the start."""
        self._feed.load_snapshot(id, snapshot.records())
        loaded = False
        while not loaded:
            await asyncio.sleep(0)
            loaded = self._feed.deliver(id.offset, self._clock.monotonic_ms(), _RECORDS_PER_TURN)

    async def stop(self) -> None:
        """Commit what was appended, resign, leave the files in order. May follow a failed start."""
        self._stopping = True
        await self._snapshotter.stop()
        if self._commits is not None:
            await self._commits.finish()
        in_order = self._machine is not None and self.failure is None
        if in_order:
            self._handle(Stopping())
            self._stop_news()
            await self._say_goodbye()
        self._machine_stopped()
        await self._peers.close()
        if self._replica is not None:
            self._replica.close(in_order=in_order)

    def abandon(self) -> None:
        """Let go of the log without a word to anybody and without writing; the node must end now."""
        self._stopping = True
        self._machine_stopped()
        self._machine = None
        if self._replica is not None:
            self._replica.close(in_order=False)

    async def _say_goodbye(self) -> None:
        machine = self._running
        deadline_ms = self._clock.monotonic_ms() + _GOODBYE_MS
        while not machine.said_goodbye and self._clock.monotonic_ms() < deadline_ms:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    # --- appending ------------------------------------------------------------------------------------------

    def append(
        self, epoch: int, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None
    ) -> int:
        """Write the records as one batch, all or none; returns the offset of the last.

        ``values``: the records encoded, where that has been done before.

        They are committed when ``high_watermark`` is above it, and given to the listeners then. Without
        records: the offset of the last record appended so far. Raises KafkaError: NOT_CONTROLLER if this node
        does not lead ``epoch``, RECORD_LIST_TOO_LARGE, KAFKA_STORAGE_ERROR if the disk is full.
        """
        machine = self._running
        if self._stopping or self.failure is not None or not machine.leads(epoch):
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                f"node {machine.node_id} does not lead the metadata log in epoch {epoch}",
            )
        if records:
            replica = self._open_replica
            self._write(lambda: replica.append(epoch, records, values))
        return self.end_offset - 1

    async def write_snapshot(self, offset: int, epoch: int, records: Iterable[VersionedRecord]) -> None:
        """Write a snapshot of the state at ``offset`` and cut the log where that allows it.

        ``offset`` and ``epoch``: as ``applied`` was when the records were gathered. Happens by itself when
        due, if ``snapshot_from`` was called; an older snapshot than the newest is not written.
        """
        await self._write_snapshot(SnapshotId(offset, epoch), list(records))

    # --- the quorum -----------------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> asyncio.Future[Answer]:
        """What another node, or a tool, asks of this one."""
        if self._machine_done:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this node is going down")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._handle(Asked(answer, ask))
        if isinstance(ask, FetchAsk):
            self._watch_voter(ask.replica.node_id)
        return answer

    async def catch_up(self) -> None:
        """Return when the listeners have been given everything that is committed by now, on any node.

        Raises KafkaError if the leader cannot be asked.
        """
        await self._catch_up.wait(self._running)

    def heard_ms(self) -> int:
        """Now, as a rule. A leader that is cut off goes on leading for a while: when others last asked it."""
        contact_ms = None if self._machine is None else self._machine.quorum_contact_ms
        return self._clock.monotonic_ms() if contact_ms is None else contact_ms

    def upgrade_kraft_version(self) -> asyncio.Future[Answer]:
        """From 0 to 1: the voters stand in the log from then on."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._handle(UpgradeAsked(answer))
        return answer

    # --- how it works ---------------------------------------------------------------------------------------

    @property
    def _open_replica(self) -> ReplicaLog:
        assert self._replica is not None, "the driver has been started"
        return self._replica

    @property
    def _running(self) -> RaftMachine:
        assert self._machine is not None, "the driver has been started"
        return self._machine

    def _handle(self, event: RaftEvent) -> None:
        """Let the machine react, and do what it asks for, until it asks for nothing more."""
        self._events.append(event)
        if self._handling or self._machine is None:
            return
        machine = self._machine
        self._handling = True
        try:
            while self._done or self._events:
                next_event = self._done.popleft() if self._done else self._events.popleft()
                try:
                    self._carry_out(machine.handle(next_event, self._clock.monotonic_ms()))
                except RusloError as error:
                    self._fail(error)
        finally:
            self._handling = False
        self._timer.arm()
        self._deliver()

    def _carry_out(self, outcome: RaftOutcome) -> None:
        replica, machine = self._open_replica, self._running
        if outcome.persist is not None:
            replica.store.store_quorum(outcome.persist, machine.log.kraft_version, machine.voters)
        if outcome.truncate_to is not None:
            truncated = replica.truncate(outcome.truncate_to)
            logger.info("cut the metadata log to offset %d, where the leader's parts", truncated.end_offset)
            self._feed.truncated(truncated.end_offset)
            self._done.append(truncated)
        if outcome.take is not None:
            self._take(outcome.take)
            if self._config.is_controller:
                self._committing.request()
        if outcome.snapshot_piece is not None:
            self._store_piece(outcome.snapshot_piece)
        if outcome.append is not None:
            records = outcome.append.records
            self._write(lambda: replica.append_control(machine.epoch, records))
        for reply in outcome.replies:
            future = cast("asyncio.Future[Answer]", reply.token)
            if not future.done():
                future.set_result(replica.filled(cast(Answer, reply.message)))
        for send in outcome.sends:
            self._send(send.node, cast(Ask, send.request))

    @property
    def _committing(self) -> GroupCommit:
        assert self._commits is not None, "the driver has been started"
        return self._commits

    def _write(self, append: Callable[[], AppendedBatch]) -> None:
        try:
            batch = append()
        except DiskError as error:
            if error.fatal:
                self._fail(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._feed.appended(batch)
        if self._news is not None:
            self._news.appended()
        self._committing.request()
        self._done.append(Appended(batch.end_offset, batch.epoch))
        if not self._handling:
            self._handle(self._done.pop())

    def _take(self, records: ReadBuffer) -> None:
        replica, begin = self._open_replica, self.end_offset
        try:
            replica.take(records, self._running.epoch)
        except (KafkaError, DiskError) as error:
            if isinstance(error, DiskError) and error.fatal:
                raise
            # Damaged on the way, or by the leader; or the disk is full. It is fetched again, not in a hurry.
            logger.error("what the leader of the metadata log sent cannot be appended: %s", error)
            retry = partial(self._handle, Taken())
            self._retry = asyncio.get_running_loop().call_later(_TAKE_PAUSE_S, retry)
            self._done.extend(replica.taken_since(begin))
        else:
            self._done.extend((*replica.taken_since(begin), Taken()))

    def _store_piece(self, piece: SnapshotPiece) -> None:
        loaded = self._open_replica.add_piece(piece)
        if loaded is not None:
            event, records = loaded
            logger.info("took over the leader's snapshot of offset %d, epoch %d", *event.id)
            self._feed.load_snapshot(event.id, records)
            self._policy.taken()
            self._done.append(event)

    def _send(self, node_id: int, ask: Ask) -> None:
        endpoint = self._running.address_of(node_id)
        if endpoint is None:
            self._events.append(Unanswered(node_id, ask))
        else:
            self._peers.ask(node_id, endpoint, ask, partial(self._answered, node_id, ask))

    def _answered(self, node_id: int, ask: Ask, answer: Answer | None) -> None:
        self._handle(Unanswered(node_id, ask) if answer is None else Answered(node_id, ask, answer))

    def _watch_voter(self, node_id: int) -> None:
        """One that fetches here is alive: a leader wants to know when that ends."""
        machine = self._running
        if machine.leads(machine.epoch) and node_id in machine.voters.ids and node_id != machine.node_id:
            endpoint = machine.address_of(node_id)
            if endpoint is not None:
                self._peers.keep(node_id, endpoint)

    def _peer_gone(self, node_id: int) -> None:
        self._handle(PeerGone(node_id))

    # --- what is committed ----------------------------------------------------------------------------------

    def _synced(self, targets: SyncTargets) -> None:
        if self.failure is None and self._open_replica.store.mark_flushed(targets) and self._machine:
            self._handle(Flushed(targets.end_offset))

    def _deliver(self) -> None:
        """Hand out what has committed, tell who leads, take a snapshot if one is due."""
        if self.failure is not None or self._machine is None:
            return
        self._more = None
        high_watermark = self._machine.high_watermark
        self._open_replica.store.log.advance_high_watermark(high_watermark)
        try:
            everything = self._feed.deliver(high_watermark, self._clock.monotonic_ms(), _RECORDS_PER_TURN)
        except Exception as error:
            # A listener that cannot apply a committed record must not go on with half of it.
            logger.exception("a committed metadata record could not be applied")
            self._fail(error)
            return
        self._catch_up.applied(self._feed.applied.offset)
        if not everything and self._more is None:
            self._more = asyncio.get_running_loop().call_soon(self._deliver)
        if self._news is not None and not self._stopping and self.failure is None:
            self._news.update()
        self._snapshotter.check()

    def _deadline_ms(self) -> int | None:
        return None if self._machine is None else self._machine.deadline_ms()

    def _stop_news(self) -> None:
        if self._news is not None:
            self._news.stop()

    def _machine_stopped(self) -> None:
        self._machine_done = True
        self._timer.stop()
        for pending in (self._more, self._retry):
            if pending is not None:
                pending.cancel()

    # --- snapshots and failures -----------------------------------------------------------------------------

    async def _write_snapshot(self, id: SnapshotId, records: list[VersionedRecord]) -> None:
        written = await self._open_replica.write_snapshot(
            id,
            records,
            high_watermark=self._running.high_watermark,
            max_retention_bytes=self._config.int("metadata.max.retention.bytes"),
            max_retention_ms=self._config.int("metadata.max.retention.ms"),
        )
        if written:
            self._handle(SnapshotTaken(id, self.start_offset))

    def _snapshot_failed(self, error: BaseException) -> None:
        if isinstance(error, DiskError) and error.disk_full:
            logger.error(
                "no metadata snapshot was taken: %s. The log goes on growing until one can be", error
            )
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Once: stop leading, let everybody know."""
        if self.failure is not None:
            return
        self.failure = error
        logger.critical("the metadata log has failed: %s", error)
        self._handle(Stopping())
        self._machine_stopped()
        try:
            self._stop_news()
        finally:
            self._on_failure(error)
