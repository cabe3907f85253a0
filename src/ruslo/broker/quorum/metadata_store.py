"""The metadata log on disk: segments, snapshots and quorum state in ``__cluster_metadata-0`` of the metadata
log directory."""

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
from ruslo.machines.raft.snapshots import SnapshotId, next_truncation
from ruslo.machines.raft.voters import VoterSet
from ruslo.model.buffers import ReadBuffer
from ruslo.model.clock import Clock
from ruslo.model.errors import CorruptLogError
from ruslo.model.ids import METADATA_TOPIC_ID
from ruslo.model.topics import METADATA_TOPIC, TopicPartition
from ruslo.records.batch import HEADER_SIZE, BatchHeader, read_header
from ruslo.records.reader import iter_batches
from ruslo.storage.checkpoints import CheckpointedState
from ruslo.storage.disk import Disk
from ruslo.storage.log import Log
from ruslo.storage.log_loader import open_log
from ruslo.storage.log_sync import SyncTargets
from ruslo.storage.partition_files import PARTITION_METADATA, format_partition_metadata
from ruslo.storage.trash import Trash

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
_READ_BYTES: Final = 1 << 20
_SMALL_SEGMENT_BYTES: Final = 1 << 20
"""A smaller active segment is not rolled at a snapshot: one segment may span several snapshots."""

logger = logging.getLogger(__name__)


class MetadataStore:
    """Blocking, for the event loop's thread; ``snapshots`` may be written in another thread."""

    def __init__(
        self, disk: Disk, clock: Clock, *, segment_bytes: int, segment_ms: int, snapshot_bytes: int
    ) -> None:
        """``snapshot_bytes``: the size of the log between two snapshots."""
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
                "truncating %s: its last %d bytes, from byte %d on, are an incomplete batch that a crash "
                "interrupted and that was never acknowledged",
                scan.torn_tail.path,
                scan.torn_tail.size,
                scan.torn_tail.position,
            )
        self._trash = Trash(disk, clock)
        config = LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            retention_ms=NO_LIMIT,  # Its start moves to snapshots only.
            retention_bytes=NO_LIMIT,
            file_delete_delay_ms=0,
        )
        self.log = self._open_log(config)

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    def control_records(self) -> Iterator[tuple[int, ControlRecord]]:
        """The control records of the snapshot, then those of the log after it."""
        if self.snapshot is not None:
            # The records that format wrote come before the log, so the first leader copies them into it.
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
        """False if the log was truncated meanwhile: then it is unknown what has been synced."""
        self.log.mark_flushed(targets, self._clock.now_ms())
        return self.log.sync_targets().generation == targets.generation

    def truncate(self, offset: int) -> int:
        """Truncate from the batch that contains ``offset`` on; returns the new end offset."""
        self.log.truncate_to(offset)
        return self.log.end_offset

    def restart_at(self, id: SnapshotId) -> None:
        """A snapshot of the leader replaces the whole log."""
        self.log.truncate_fully_and_start_at(id.offset)
        self._trash.remove_due()
        self.snapshots.delete_before(id)

    def log_view(self) -> LogView:
        """The raft machine's view at start, with all control records replayed."""
        view = LogView(
            end_offset=self.end_offset,
            epochs=self.log.epochs.entries(),
            start_offset=self.log.start_offset,
            # The snapshot at offset 0 was written by format and contains nothing of the log.
            snapshot=self.snapshot_id if self.snapshot_id.offset else None,
        )
        for offset, record in self.control_records():
            if isinstance(record, QuorumRecord):
                view.replay(record, offset)
        return view

    def apply_retention(self, *, max_retention_bytes: int, max_retention_ms: int) -> None:
        """After a snapshot was written: delete snapshots beyond the retention, and the log before them."""
        now_ms = self._clock.now_ms()
        if self.log.active.size >= self._small_segment:
            # Only closed segments can be deleted.
            self.log.roll(self.log.end_offset, now_ms)
        while True:
            id = next_truncation(
                self.snapshots.stored(),
                self.log.size_bytes,
                now_ms,
                max_retention_bytes=max_retention_bytes,
                max_retention_ms=max_retention_ms,
            )
            if id is None:
                return
            logger.info("moving the start of the metadata log to its snapshot at offset %d", id.offset)
            self.log.advance_start_offset(id.offset)
            self.log.delete_old_segments(now_ms)
            self.snapshots.delete_before(id)
            self._trash.remove_due()

    def close(self, *, cleanly: bool) -> None:
        """Close the files as at a clean shutdown; after a failure, leave them as they are."""
        if cleanly:
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
                logger.error("%s. Set it aside and use an older snapshot and more of the log", error)
                self.snapshots.set_aside(id)
        return SnapshotId(0, 0), None

    def _open_log(self, config: LogConfig) -> Log:
        # The content of a snapshot was committed, so it was synced.
        checkpointed = CheckpointedState(clean=False, recovery_point=self.snapshot_id.offset)
        log = open_log(
            self._disk,
            self.directory,
            METADATA_PARTITION,
            config,
            self._trash,
            self._clock.now_ms(),
            checkpointed,
        )
        # A power loss can then damage only the last segment, so damage before it is detected as a loss of
        # synced data (see metadata_scan). Segments are rolled every few days, or after a snapshot.
        log.syncs_before_roll = True
        is_older = 0 <= log.epochs.latest < self.snapshot_id.epoch
        if log.end_offset < self.snapshot_id.offset or is_older:
            # The leader's snapshot was about to replace the log. A log that is longer but of an earlier epoch
            # was never committed beyond that point.
            logger.warning(
                "the metadata log ends at offset %d, epoch %d, before the snapshot at offset %d, epoch %d: "
                "restarting it at the snapshot",
                log.end_offset,
                log.epochs.latest,
                *self.snapshot_id,
            )
            log.truncate_fully_and_start_at(self.snapshot_id.offset)
            self._control_in_log = ()
        if log.start_offset > self.snapshot_id.offset:
            raise CorruptLogError(
                f"The metadata log in {self.directory} starts at offset {log.start_offset}, but the newest "
                f"valid snapshot ends at offset {self.snapshot_id.offset}: metadata in between is missing. "
                "Restore the directory from a backup"
            )
        return log
