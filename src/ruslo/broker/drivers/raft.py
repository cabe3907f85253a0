"""Runs the raft machine: owns the metadata log on disk, commits what is appended, feeds those who listen.

An append is written into the page cache at once; a sync, shared with others (``group_commit.py``), makes it
durable. Then the machine moves the high watermark and the feed hands out what has committed.

A failed sync or write is final: nothing is known about the bytes any more, so the driver resigns, refuses
appends and reports to ``on_failure``, and the node goes down. A full disk refuses the append and no more.

A node that sits idle costs nothing here: no NoOp records as long as there is a single voter, one timer only,
for the next snapshot, and that only while there is something a snapshot would add.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from ruslo.broker.drivers.commit_feed import AppendedBatch, CommitFeed
from ruslo.broker.drivers.group_commit import GroupCommit
from ruslo.broker.drivers.metadata_batches import (
    MAX_BATCH_BYTES,
    ControlRecord,
    VersionedRecord,
    control_batch,
    data_batch,
    read_data,
)
from ruslo.broker.drivers.metadata_log import MetadataLogListener
from ruslo.broker.drivers.metadata_store import MetadataStore
from ruslo.broker.drivers.snapshotter import SnapshotSource, Snapshotter
from ruslo.config.broker import BrokerConfig
from ruslo.machines.raft.events import Appended, Flushed, Persisted, RaftEvent, Started, Stopping
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.snapshots import SnapshotId, SnapshotPolicy
from ruslo.machines.raft.voters import Endpoint, VoterSet
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.abort_transaction_record import AbortTransactionRecord
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.storage.disk import Disk, DiskError
from ruslo.storage.log_sync import SyncTargets

_BATCHES_PER_TURN = 200
"""While the log is replayed at start: then the event loop gets a turn."""

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
    ) -> None:
        """``disk``: of the metadata log directory, whose id is ``directory_id``.
        ``endpoints``: this node's controller listeners, as others reach them."""
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
        self._store: MetadataStore | None = None
        self._machine: RaftMachine | None = None
        self._commits: GroupCommit | None = None
        self._started = False
        self._stopping = False
        self.failure: BaseException | None = None
        """Why this driver takes no appends any more."""

    # --- where the log stands -------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """-1 when nobody leads, as before the start and after the stop."""
        return NO_NODE if self._machine is None else self._machine.leader_id

    @property
    def epoch(self) -> int:
        return 0 if self._machine is None else self._machine.epoch

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed; -1 as long as nothing is known."""
        return -1 if self._machine is None else self._machine.high_watermark

    @property
    def end_offset(self) -> int:
        return self._open_store.end_offset

    @property
    def start_offset(self) -> int:
        return self._open_store.log.start_offset

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

    # --- life -----------------------------------------------------------------------------------------------

    def register(self, listener: MetadataLogListener) -> None:
        """Before ``start``, which gives every listener all there is."""
        assert self._machine is None, "listeners are registered before the start"
        self._feed.listeners.append(listener)

    def snapshot_from(self, source: SnapshotSource) -> None:
        """Where snapshots come from; without it none is taken."""
        self._snapshotter.source = source

    async def start(self) -> None:
        """Open the log, win the election, give the listeners everything committed, then tell who leads.

        Raises ConfigError if this node is not the only voter, StorageError if the log cannot be used.
        """
        store = self._store = self._open()
        commits = self._commits = GroupCommit(store.log, on_synced=self._synced, on_failure=self._fail)
        machine = self._machine = self._new_machine(store)
        for offset, record in store.control_records():
            if isinstance(record, QuorumRecord):
                machine.replay(offset, record)
        self._handle(Started())
        commits.sync_now()
        await self._replay()
        if self._feed.in_transaction:
            # Its writer is gone, and nobody else may end it (KIP-868).
            abort = AbortTransactionRecord(reason="the controller restarted")
            self._append(machine.epoch, [(abort, 0)])
            commits.sync_now()
            self._feed.deliver(machine.high_watermark, self._clock.monotonic_ms())
        logger.info(
            "leading the metadata log in epoch %d, offsets %d to %d",
            machine.epoch,
            store.log.start_offset,
            store.end_offset,
        )
        self._started = True
        self._feed.leader_changed(machine.leader_id, machine.epoch)
        self._snapshotter.check()

    async def stop(self) -> None:
        """Commit what was appended, resign, leave the files in order. May follow a failed start."""
        self._stopping = True
        await self._snapshotter.stop()
        if self._commits is not None:
            await self._commits.finish()
        in_order = self._started and self.failure is None
        if in_order:
            self._handle(Stopping())
            self._feed.leader_changed(NO_NODE, self.epoch)
        if self._store is not None:
            self._store.close(in_order=in_order)

    # --- appending ------------------------------------------------------------------------------------------

    def append(self, epoch: int, records: Sequence[VersionedRecord]) -> int:
        """Write the records as one batch, all or none; returns the offset of the last.

        They are committed when ``high_watermark`` is above it, and given to the listeners then. Without
        records: the offset of the last record appended so far. Raises KafkaError: NOT_CONTROLLER if this node
        does not lead ``epoch``, RECORD_LIST_TOO_LARGE, KAFKA_STORAGE_ERROR if the disk is full.
        """
        store, machine = self._open_store, self._running
        if self._stopping or self.failure is not None or not machine.leads(epoch):
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                f"node {machine.node_id} does not lead the metadata log in epoch {epoch}",
            )
        if records:
            self._append(epoch, records)
            self._committing.request()
        return store.end_offset - 1

    async def write_snapshot(self, offset: int, epoch: int, records: Iterable[VersionedRecord]) -> None:
        """Write a snapshot of the state at ``offset`` and cut the log where that allows it.

        ``offset`` and ``epoch``: as ``applied`` was when the records were gathered. Happens by itself when
        due, if ``snapshot_from`` was called; an older snapshot than the newest is not written.
        """
        await self._write_snapshot(SnapshotId(offset, epoch), list(records))

    # --- how it works ---------------------------------------------------------------------------------------

    @property
    def _open_store(self) -> MetadataStore:
        assert self._store is not None, "the driver has been started"
        return self._store

    @property
    def _committing(self) -> GroupCommit:
        assert self._commits is not None, "the driver has been started"
        return self._commits

    @property
    def _running(self) -> RaftMachine:
        assert self._machine is not None, "the driver has been started"
        return self._machine

    def _open(self) -> MetadataStore:
        return MetadataStore(
            self._disk,
            self._clock,
            segment_bytes=self._config.int("metadata.log.segment.bytes"),
            segment_ms=self._config.int("metadata.log.segment.ms"),
            snapshot_bytes=self._config.int("metadata.log.max.record.bytes.between.snapshots"),
        )

    def _new_machine(self, store: MetadataStore) -> RaftMachine:
        addresses = self._config.quorum_voters
        listener = self._config.controller_listener_names[0]
        return RaftMachine(
            node_id=self._config.node_id,
            directory_id=self._directory_id,
            endpoints=self._endpoints,
            static_voters=VoterSet.static(addresses, listener) if addresses else None,
            quorum=store.quorum,
            log=LogView(end_offset=store.end_offset, last_epoch=store.last_epoch),
        )

    def _handle(self, event: RaftEvent) -> None:
        """Let the machine react, and do what it asks for, until it asks for nothing more."""
        store, machine = self._open_store, self._running
        next_event: RaftEvent | None = event
        while next_event is not None:
            outcome = machine.handle(next_event, self._clock.monotonic_ms())
            next_event = None
            if outcome.persist is not None:
                store.store_quorum(outcome.persist, machine.log.kraft_version, machine.voters)
                next_event = Persisted(outcome.persist)
            if outcome.append is not None:
                self._append_control(outcome.append.records)

    def _append(self, epoch: int, records: Sequence[VersionedRecord]) -> None:
        base_offset = self._open_store.end_offset
        now_ms = self._clock.now_ms()
        batch = data_batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=now_ms)
        if len(batch) > MAX_BATCH_BYTES:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(records)} metadata records take {len(batch)} bytes, at most {MAX_BATCH_BYTES} go into "
                "one change; make it in smaller steps",
            )
        self._write(batch, now_ms, [record for record, _ in records])

    def _append_control(self, records: Sequence[QuorumRecord]) -> None:
        base_offset = self._open_store.end_offset
        now_ms = self._clock.now_ms()
        batch = control_batch(
            records, base_offset=base_offset, epoch=self._running.epoch, timestamp_ms=now_ms
        )
        self._write(batch, now_ms, ())
        for offset, record in enumerate(records, base_offset):
            self._running.replay(offset, record)

    def _write(self, batch: bytearray, now_ms: int, records: Sequence[Message]) -> None:
        store, machine = self._open_store, self._running
        base_offset = store.end_offset
        try:
            store.append(batch, now_ms)
        except DiskError as error:
            if error.fatal:
                self._fail(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._feed.appended(AppendedBatch(base_offset, store.end_offset, machine.epoch, len(batch), records))
        self._handle(Appended(store.end_offset, machine.epoch))

    async def _replay(self) -> None:
        """Give the listeners what was committed before this epoch: the snapshot, then the log behind it."""
        store, machine = self._open_store, self._running
        if store.snapshot is not None and store.snapshot_id.offset > 0:
            self._feed.load_snapshot(store.snapshot_id, list(store.snapshot.records()))
        now_ms = self._clock.monotonic_ms()
        behind_snapshot = store.batches(store.snapshot_id.offset, machine.epoch_start_offset)
        for count, (header, batch) in enumerate(behind_snapshot, 1):
            records = () if header.is_control else read_data(batch)
            self._feed.apply(
                AppendedBatch(
                    header.base_offset, header.last_offset + 1, header.leader_epoch, header.size, records
                ),
                now_ms,
            )
            if count % _BATCHES_PER_TURN == 0:
                await asyncio.sleep(0)
        self._feed.deliver(machine.high_watermark, now_ms)

    def _synced(self, targets: SyncTargets) -> None:
        store = self._open_store
        if self.failure is not None:
            return
        store.mark_flushed(targets)
        self._handle(Flushed(targets.end_offset))
        store.log.advance_high_watermark(self.high_watermark)
        if self._started:
            self._deliver()

    def _deliver(self) -> None:
        try:
            self._feed.deliver(self.high_watermark, self._clock.monotonic_ms())
        except Exception as error:
            # A listener that cannot apply a committed record must not go on with half of it.
            logger.exception("a committed metadata record could not be applied")
            self._fail(error)
            return
        self._snapshotter.check()

    async def _write_snapshot(self, id: SnapshotId, records: list[VersionedRecord]) -> None:
        store, machine = self._open_store, self._running
        last_batch = store.batch_before(id.offset)
        if id.offset > machine.high_watermark or last_batch is None or last_batch.leader_epoch != id.epoch:
            raise RusloError(
                f"a snapshot at offset {id.offset}, epoch {id.epoch} does not end with a committed batch; "
                f"the high watermark is {machine.high_watermark}"
            )
        if store.snapshots.ids() and id <= store.snapshots.ids()[-1]:
            return
        control: tuple[ControlRecord, ...] = ()
        if machine.log.kraft_version > 0:
            control = (
                KRaftVersionRecord(version=0, kraft_version=machine.log.kraft_version),
                machine.voters.to_record(),
            )
        await asyncio.to_thread(
            store.snapshots.write,
            id,
            control=control,
            records=records,
            last_timestamp_ms=last_batch.max_timestamp,
            now_ms=self._clock.now_ms(),
        )
        store.cut(
            max_retention_bytes=self._config.int("metadata.max.retention.bytes"),
            max_retention_ms=self._config.int("metadata.max.retention.ms"),
        )

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
        try:
            self._feed.leader_changed(NO_NODE, self.epoch)
        finally:
            self._on_failure(error)
