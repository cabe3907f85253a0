"""Everything about the metadata log on disk: its segments, its snapshots and the quorum state, in
``__cluster_metadata-0`` of the metadata log directory."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final

from ruslo.broker.quorum import quorum_state_file
from ruslo.broker.quorum.checkpoint_file import Checkpoint
from ruslo.broker.quorum.metadata_batches import ControlRecord
from ruslo.broker.quorum.metadata_scan import scan_metadata_log
from ruslo.broker.quorum.snapshot_store import SnapshotStore
from ruslo.config.log_config import NO_LIMIT, LogConfig
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.quorum_state import QuorumState
from ruslo.machines.raft.snapshots import SnapshotId, next_cut
from ruslo.machines.raft.voters import VoterSet
from ruslo.model.buffers import ReadBuffer
from ruslo.model.clock import Clock
from ruslo.model.errors import CorruptLogError
from ruslo.model.ids import METADATA_TOPIC_ID
from ruslo.model.topics import METADATA_TOPIC, TopicPartition
from ruslo.records.batch import HEADER_SIZE, BatchHeader, read_header
from ruslo.records.reader import iter_batches
from ruslo.storage.disk import Disk
from ruslo.storage.log import Log
from ruslo.storage.log_sync import SyncTargets
from ruslo.storage.partition_files import PARTITION_METADATA, format_partition_metadata
from ruslo.storage.recovery import LastStop, open_log
from ruslo.storage.trash import Trash

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
_READ_BYTES: Final = 1 << 20
_SMALL_SEGMENT_BYTES: Final = 1 << 20
"""Not worth to be closed at a snapshot: there will be more than one in a segment."""

logger = logging.getLogger(__name__)


class MetadataStore:
    """Blocking, and meant for the event loop's thread; ``snapshots`` may be written in another."""

    def __init__(
        self, disk: Disk, clock: Clock, *, segment_bytes: int, segment_ms: int, snapshot_bytes: int
    ) -> None:
        """``snapshot_bytes``: how much log there is between two snapshots."""
        self.directory = os.path.join(disk.directory, str(METADATA_PARTITION))
        self._disk = disk
        self._clock = clock
        self._small_segment = min(_SMALL_SEGMENT_BYTES, snapshot_bytes)
        self._prepare_directory()
        self.snapshots = SnapshotStore(disk, self.directory)
        self.snapshots.sweep()
        self.quorum = quorum_state_file.load(disk, self.directory)
        self.snapshot_id, self.snapshot = self._newest_snapshot()
        scan = scan_metadata_log(disk, self.directory, self.snapshot_id.offset)
        self._control_in_log = scan.control
        if scan.torn_tail is not None:
            logger.warning(
                "%s ends in %d bytes that are no whole batch, from byte %d on: a write that the last stop "
                "interrupted. They were never acknowledged and are cut off",
                scan.torn_tail.path,
                scan.torn_tail.size,
                scan.torn_tail.position,
            )
        self._trash = Trash(disk, clock)
        config = LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            retention_ms=NO_LIMIT,  # It is cut at snapshots only.
            retention_bytes=NO_LIMIT,
            file_delete_delay_ms=0,
        )
        self.log = self._open_log(config)

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    def control_records(self) -> Iterator[tuple[int, ControlRecord]]:
        """What the quorum wrote about itself: the snapshot's records, then those of the log behind it."""
        if self.snapshot is not None:
            # What format wrote stands before the log, so that a leader copies it into the log.
            offset = self.snapshot_id.offset - 1
            for record in self.snapshot.control:
                yield offset, record
        for offset, record in self._control_in_log:
            if offset >= self.snapshot_id.offset:
                yield offset, record

    def store_quorum(self, state: QuorumState, kraft_version: int, voters: VoterSet) -> None:
        quorum_state_file.store(self._disk, self.directory, state, kraft_version, voters)

    def append(self, batch: ReadBuffer, now_ms: int) -> None:
        self.log.append_as_is(batch, now_ms)

    def batches(self, from_offset: int, to_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Whole batches; ``from_offset`` must be the first offset of one."""
        offset = from_offset
        while offset < to_offset:
            read = self.log.read(offset, _READ_BYTES, to_offset)
            assert read.slice is not None, "there is a batch below the end"
            content = memoryview(read.slice.read())
            for position, header in iter_batches(content):
                yield header, content[position : position + header.size]
                offset = header.last_offset + 1

    def batch_before(self, offset: int) -> BatchHeader | None:
        """The header of the batch that ends right before ``offset``; None if no batch does."""
        if not self.log.start_offset < offset <= self.log.end_offset:
            return None
        read = self.log.read(offset - 1, HEADER_SIZE, self.log.end_offset)
        if read.slice is None:
            return None
        header = read_header(read.slice.file.pread(HEADER_SIZE, read.slice.position))
        return header if header.last_offset == offset - 1 else None

    def mark_flushed(self, targets: SyncTargets) -> bool:
        """False if the log was truncated meanwhile: then nobody knows what of it has been synced."""
        self.log.mark_flushed(targets, self._clock.now_ms())
        return self.log.sync_targets().generation == targets.generation

    def truncate(self, offset: int) -> int:
        """Cut from the batch that holds ``offset`` on; returns where the log ends then."""
        self.log.truncate_to(offset)
        return self.log.end_offset

    def begin_at(self, id: SnapshotId) -> None:
        """A snapshot of the leader's takes the place of the whole log."""
        self.log.truncate_fully_and_start_at(id.offset)
        self._trash.remove_due()
        self.snapshots.delete_before(id)

    def log_view(self) -> LogView:
        """What the raft machine is given at start."""
        view = LogView(
            end_offset=self.end_offset,
            epochs=self.log.epochs.entries(),
            start_offset=self.log.start_offset,
            # The one at offset 0 is what format wrote; it holds nothing of the log.
            snapshot=self.snapshot_id if self.snapshot_id.offset else None,
        )
        for offset, record in self.control_records():
            if isinstance(record, QuorumRecord):
                view.replay(offset, record)
        return view

    def cut(self, *, max_retention_bytes: int, max_retention_ms: int) -> None:
        """After a snapshot was written: drop snapshots that are too old or too much, and the log before."""
        now_ms = self._clock.now_ms()
        if self.log.active.size >= self._small_segment:
            # Only closed segments can go.
            self.log.roll(self.log.end_offset, now_ms)
        while True:
            id = next_cut(
                self.snapshots.stored(),
                self.log.size_bytes,
                now_ms,
                max_retention_bytes=max_retention_bytes,
                max_retention_ms=max_retention_ms,
            )
            if id is None:
                return
            logger.info("cutting the metadata log at its snapshot of offset %d", id.offset)
            self.log.advance_start_offset(id.offset)
            self.log.delete_old_segments(now_ms)
            self.snapshots.delete_before(id)
            self._trash.remove_due()

    def close(self, *, in_order: bool) -> None:
        """Leave the files as a clean stop does; after a failure, as they are."""
        if in_order:
            self.log.close(self._clock.now_ms())
        else:
            self.log.release()

    def _prepare_directory(self) -> None:
        partition_metadata = os.path.join(self.directory, PARTITION_METADATA)
        if self._disk.status(partition_metadata) is None:
            if self._disk.status(self.directory) is None:
                self._disk.make_directory(self.directory)
                self._disk.sync_directory(self._disk.directory)
            self._disk.replace_file(partition_metadata, format_partition_metadata(METADATA_TOPIC_ID))

    def _newest_snapshot(self) -> tuple[SnapshotId, Checkpoint | None]:
        for id in reversed(self.snapshots.ids()):
            try:
                return id, self.snapshots.read(id)
            except CorruptLogError as error:
                logger.error("%s. It is set aside, and an older snapshot with more of the log used", error)
                self.snapshots.set_aside(id)
        return SnapshotId(0, 0), None

    def _open_log(self, config: LogConfig) -> Log:
        # What a snapshot holds was committed, so synced.
        last_stop = LastStop(clean=False, recovery_point=self.snapshot_id.offset)
        log = open_log(
            self._disk,
            self.directory,
            METADATA_PARTITION,
            config,
            self._trash,
            self._clock.now_ms(),
            last_stop,
        )
        # So that a power loss can damage the last segment only: before it, damage is no loss of what nobody
        # has synced (see metadata_scan). Its segments are closed every few days, or after a snapshot.
        log.syncs_before_roll = True
        is_older = 0 <= log.epochs.latest < self.snapshot_id.epoch
        if log.end_offset < self.snapshot_id.offset or is_older:
            # A leader's snapshot was to take its place. A log that is longer, but of an earlier epoch, holds
            # behind that point what was never committed.
            logger.warning(
                "the metadata log ends at offset %d, epoch %d, before the snapshot at %d, epoch %d; it "
                "begins anew there",
                log.end_offset,
                log.epochs.latest,
                *self.snapshot_id,
            )
            log.truncate_fully_and_start_at(self.snapshot_id.offset)
            self._control_in_log = ()
        if log.start_offset > self.snapshot_id.offset:
            raise CorruptLogError(
                f"the metadata log in {self.directory} begins at offset {log.start_offset}, but the newest "
                f"sound snapshot ends at offset {self.snapshot_id.offset}: metadata in between is missing. "
                "Restore the directory from a copy"
            )
        return log
