"""The log of a partition: consecutive segments, the last of which is active.

Calls run on the event loop. An append is one ``write`` into the page cache; work is per batch, never per
record. Batches are validated before (``ruslo.records.validation``); the log checks producer sequence and
epoch. Code off the hot path is in other files:

* ``log_verbatim``: appends of batches that have offsets already, on followers
* ``log_reader``: searches
* ``log_truncation``, ``retention``
* ``log_sync``: flushes
* ``log_creation``, ``log_loader``: how a log is created and opened
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from ruslo.model.buffers import ReadBuffer, WriteBuffer
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.records.batch import LENGTH_OVERHEAD, LOG_APPEND_TIME, TRANSACTIONAL, HeaderFields
from ruslo.records.builder import empty_batch
from ruslo.storage import log_reader, log_truncation, log_verbatim, retention
from ruslo.storage.checkpoints import TXN_INDEX_CHECKSUMS, format_txn_index_checksums
from ruslo.storage.disk import DiskError, FileSlice
from ruslo.storage.leader_epochs import EpochEnd
from ruslo.storage.log_reader import EMPTY_READ, LogRead, TimestampedOffset
from ruslo.storage.log_state import LogState
from ruslo.storage.log_sync import SyncTargets
from ruslo.storage.partition_files import PARTITION_METADATA, format_partition_metadata
from ruslo.storage.producer_entry import SEQUENCE_MASK, BatchMetadata
from ruslo.storage.producer_replay import read_marker
from ruslo.storage.producer_snapshot import encode_snapshot, snapshot_path
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import Segment
from ruslo.storage.txn_index import AbortedTransaction
from ruslo.storage.verification_guard import VerificationGuard

RECENT_BATCHES = 256
"""Reads find this many batches at the end of the log without reading the file."""

_PATCH = Struct(">qii")


class AppendResult(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 with CreateTime; for a duplicate, the largest timestamp of the batch that is in the log."""
    duplicate: bool = False


class Log(LogState):
    __slots__ = ()

    # --- appending --------------------------------------------------------------------

    def append_leader(
        self,
        batch: WriteBuffer,
        header: HeaderFields,
        leader_epoch: int,
        now_ms: int,
        *,
        check_sequence: bool = True,
        transaction_v2: bool = False,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Append one validated batch; its base offset and leader epoch are set in place.

        ``check_sequence`` is False for batches of a coordinator on this broker. ``guard`` is the verification
        guard that the batch held until its transaction was verified. Raises KafkaError, and DiskError if the
        write failed (``fatal``: the log directory must go offline).
        """
        _, length, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
        entry = None
        if producer_id >= 0:
            entry = self.producers.entries.get(producer_id)
            # The next batch in sequence, if it does not start a transaction, needs no further check.
            if (
                entry is None
                or entry.next_sequence != sequence
                or entry.epoch != epoch
                or (entry.transaction_start >= 0) != bool(attributes & TRANSACTIONAL)
            ):
                entry = None
                earlier = self.producers.check(
                    header, check_sequence=check_sequence, transaction_v2=transaction_v2, guard=guard
                )
                if earlier is not None:
                    return AppendResult(earlier.first_offset, earlier.last_offset, earlier.timestamp, True)
        base_offset = self.end_offset
        last_offset = base_offset + delta
        size = length + LENGTH_OVERHEAD
        position = self.active.size
        limits = self.limits
        try:
            if (
                position + size > limits.size
                or timestamp > limits.timestamp
                or last_offset > limits.offset
                or now_ms > limits.now_ms
            ):
                self.make_room(base_offset, last_offset, size, timestamp, now_ms)
                position = self.active.size
            _PATCH.pack_into(batch, 0, base_offset, length, leader_epoch)
            try:
                self._write(batch)
            except DiskError as error:
                self._truncate_torn_tail(position, error)
                raise
        except DiskError:
            if producer_id >= 0 and check_sequence:
                self.producers.awaiting_retry[producer_id] = (epoch, sequence)
            raise
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        self.note_batch(base_offset, position, last_offset, size, timestamp)
        if entry is not None:
            entry.add_batch(BatchMetadata((sequence + delta) & SEQUENCE_MASK, last_offset, delta, timestamp))
            if self.producers.awaiting_retry:
                self.producers.awaiting_retry.pop(producer_id, None)
        elif producer_id >= 0:
            self.producers.append_data(header, base_offset)
        self.end_offset = last_offset + 1
        return AppendResult(base_offset, last_offset, timestamp if attributes & LOG_APPEND_TIME else -1)

    def append_marker(
        self, batch: WriteBuffer, leader_epoch: int, now_ms: int, transaction_version: int = 2
    ) -> AppendResult:
        """Append a transaction marker (one control batch) as leader; raises KafkaError if it is fenced."""
        marker = read_marker(batch)
        if marker is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "the batch is not a transaction marker")
        self.producers.check_marker(marker, transaction_version)
        base_offset, size, position = self.end_offset, len(batch), self.active.size
        limits = self.limits
        if now_ms > limits.now_ms or not limits.allows(position + size, marker.timestamp, base_offset):
            self.make_room(base_offset, base_offset, size, marker.timestamp, now_ms)
            position = self.active.size
        _PATCH.pack_into(batch, 0, base_offset, size - LENGTH_OVERHEAD, leader_epoch)
        if marker.committed:
            self.write(batch, position)
        else:
            self.write_marker(batch, position, self.producers.aborted_by(marker, base_offset))
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        self.note_batch(base_offset, position, base_offset, size, marker.timestamp)
        self.end_offset = base_offset + 1
        self.producers.append_marker(marker, base_offset)
        return AppendResult(base_offset, base_offset, -1)

    def append_as_is(self, data: ReadBuffer, now_ms: int) -> int:
        """Append whole batches that have offsets and leader epochs already; returns the log end offset.

        Followers use it, and the leader of the metadata log, which assigns offsets itself. Nothing is
        appended if any batch is damaged or out of order.
        """
        return log_verbatim.append_as_is(self, data, now_ms)

    def append_follower(self, data: ReadBuffer, leader_epoch: int, now_ms: int) -> int:
        """Append the batches of a fetch response, except those of epochs after ``leader_epoch``."""
        return log_verbatim.append_up_to_epoch(self, data, leader_epoch, now_ms)

    def write(self, data: ReadBuffer, position: int) -> None:
        """Write at the end of the active segment, which is ``position``; a failed write leaves nothing."""
        try:
            self._write(data)
        except DiskError as error:
            self._truncate_torn_tail(position, error)
            raise

    def write_marker(self, data: ReadBuffer, position: int, aborted: AbortedTransaction | None) -> None:
        """Write one marker, after its entry in the transaction index.

        Readers must never find an aborted transaction without its entry.
        """
        if aborted is None:
            self.write(data, position)
            return
        self._unsynced.add_txn_index(self.active.txn_index.path)
        self.active.txn_index.append(aborted)
        try:
            self.write(data, position)
        except DiskError:
            self.active.txn_index.truncate_to(aborted.last_offset)
            raise

    def note_batch(
        self, base_offset: int, position: int, last_offset: int, size: int, timestamp: int
    ) -> None:
        segment = self.active
        segment.note_batch(position, last_offset, size, timestamp, self._index_interval_bytes)
        recent = self._recent_bases
        recent.append(base_offset)
        self._recent_positions.append(position)
        if len(recent) > RECENT_BATCHES:
            del recent[: RECENT_BATCHES // 2]
            del self._recent_positions[: RECENT_BATCHES // 2]
        if position == 0 or self.limits.index_may_fill:
            self.limits.recompute(segment, self.config)

    def _truncate_torn_tail(self, position: int, error: DiskError) -> None:
        """Remove the bytes of a failed write: the file must end with a whole batch."""
        try:
            self.active.file.truncate(position)
        except DiskError:
            error.fatal = True
            return
        error.fatal = error.fatal and not error.disk_full

    def make_room(self, base_offset: int, last_offset: int, size: int, timestamp: int, now_ms: int) -> None:
        """Prepare the active segment for a batch, and roll if the batch must go into a new one."""
        self.check_online()
        segment, limits = self.active, self.limits
        segment.activate()
        limits.recompute(segment, self.config)
        self._write = segment.file.append
        exceeds = segment.size + size > limits.size or timestamp > limits.timestamp or now_ms > limits.now_ms
        if (exceeds and segment.size) or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            # A follower may get a batch past its end offset. Segments have no gap between them where that is
            # possible, because recovery takes a gap for a loss.
            fits = last_offset - self.end_offset <= MAX_RELATIVE_OFFSET
            self.roll(self.end_offset if fits else base_offset, now_ms)

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Seal the active segment and create a new one at ``base_offset``."""
        sealed = self.active
        assert base_offset > sealed.base_offset, f"{self}: roll to {base_offset}"
        if self.syncs_before_roll:
            self.flush(now_ms)
        try:
            sealed.activate()
            sealed.write_indexes()
            self.write_producer_snapshot()
            self.write_txn_index_checkpoint()
            segment = Segment(self.disk, self.path, base_offset, 0, now_ms)
            segment.create_file()
        except DiskError as error:
            error.fatal = error.fatal and not error.disk_full
            raise
        segment.activate()
        sealed.seal()
        self.segments.append(segment)
        self._unsynced.add_segment(sealed)
        # Its indexes are not durable yet, so recovery must start in this segment.
        self.recovery_point = min(self.recovery_point, base_offset - 1)
        self.active = segment
        self.forget_recent_batches()
        self.limits.recompute(segment, self.config)
        self._write = segment.file.append

    def fill_gap_to(self, offset: int, now_ms: int) -> None:
        """Append empty batches up to an offset and flush: the records in between were here and are lost.

        Without them the gap would be taken for new damage, and consumers could not get past it.
        """
        epoch = max(self.epochs.latest, 0)
        while self.end_offset < offset:
            last_offset = min(offset - 1, self.end_offset + MAX_RELATIVE_OFFSET)
            self.append_as_is(empty_batch(self.end_offset, last_offset, epoch), now_ms)
        self.flush(now_ms)

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Write the topic id of the cluster metadata, because ``partition.metadata`` had none."""
        self.disk.replace_file(f"{self.path}/{PARTITION_METADATA}", format_partition_metadata(topic_id))
        self.topic_id = topic_id

    def write_producer_snapshot(self) -> None:
        """Write a producer state snapshot at the log end offset if that moved; the next flush syncs it."""
        if self.end_offset > self.snapshot_offset:
            path = snapshot_path(self.path, self.end_offset)
            self.disk.write_file(path, encode_snapshot(self.producers.entries.values()))
            self.snapshot_offset = self.end_offset
            self._unsynced.add_snapshot(path)

    def write_txn_index_checkpoint(self) -> None:
        """Write the checksums of the transaction indexes, so the next start can detect damage."""
        indexes = {
            each.base_offset: each.txn_index.checksum() for each in self.segments if each.txn_index.exists
        }
        if indexes or self.has_txn_index_checkpoint:
            path = f"{self.path}/{TXN_INDEX_CHECKSUMS}"
            self.disk.write_file(path, format_txn_index_checksums(indexes))
            self.has_txn_index_checkpoint = True
            self._unsynced.add_snapshot(path)

    # --- reading ----------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upper_bound: int, min_one_batch: bool = True) -> LogRead:
        """The byte range of one segment that starts with the batch that has ``offset``.

        It ends before the batch that has ``upper_bound`` (high watermark, last stable offset or log end
        offset). The last batch may be cut off at ``max_bytes``. The first batch is never cut off: if it is
        larger, it is returned whole with ``min_one_batch``, else the read is empty.
        """
        end_offset = self.end_offset
        if not self.start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition} has offsets {self.start_offset} to {end_offset}, not {offset}",
            )
        if offset >= upper_bound or offset == end_offset:
            return EMPTY_READ
        if self.damage:
            upper_bound = self.damage.bound(offset, upper_bound)
        bases, positions = self._recent_bases, self._recent_positions
        segment = self.active
        at, limit = bisect_left(bases, offset), segment.size
        is_recent = at < len(bases) and bases[at] == offset
        if upper_bound < end_offset:
            bound = bisect_left(bases, upper_bound)
            if bound < len(bases) and bases[bound] == upper_bound:
                limit = positions[bound]
            else:
                is_recent = False
        if not is_recent:
            # An older offset, one inside a batch, or one that compaction removed: search the file.
            self.check_online()
            return log_reader.read(self, offset, max_bytes, upper_bound, min_one_batch)
        position = positions[at]
        size = limit - position
        if size > max_bytes:
            first = (positions[at + 1] if at + 1 < len(positions) else segment.size) - position
            if first <= max_bytes:
                size = max_bytes
            else:
                size = first if min_one_batch else 0
        if size <= 0:
            return EMPTY_READ
        return LogRead(FileSlice(segment.file, position, size), offset)

    def end_of_read(self, read: LogRead) -> int:
        """An offset past the records of a read, to bound the search for aborted transactions."""
        return log_reader.end_of_read(self, read)

    def aborted_transactions(self, offset: int, upper: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch records in [offset, upper), in marker order; maybe others."""
        self.check_online()
        return log_reader.aborted_transactions(self.segments, offset, upper)

    def offset_for_timestamp(self, timestamp: int, bound: int) -> TimestampedOffset | None:
        """The first record below ``bound`` whose timestamp is at least ``timestamp``."""
        self.check_online()
        return log_reader.offset_for_timestamp(self, timestamp, bound)

    def max_timestamp_offset(self, bound: int) -> TimestampedOffset | None:
        """The first record with the largest timestamp; None if no record below ``bound`` has it."""
        self.check_online()
        return log_reader.max_timestamp_offset(self, bound)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.end_of(epoch, self.end_offset)

    # --- truncation and retention -----------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords: raise the log start offset (-1: to the high watermark) and return it."""
        self.check_online()
        return retention.delete_records_before(self, offset)

    def truncate_to(self, offset: int) -> bool:
        """Truncate the log before the batch that has ``offset``; returns whether anything was removed."""
        self.check_online()
        self.complete_swap()
        return log_truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.check_online()
        self.complete_swap()
        log_truncation.truncate_fully_and_start_at(self, offset)

    def complete_swap(self) -> None:
        """Finish a segment swap, so that files have their final names before they are truncated or closed."""
        if self.swap is not None:
            self.swap.complete()

    def delete_old_segments(self, now_ms: int, max_segments: int = retention.NO_LIMIT) -> int:
        """Delete segments by ``retention.ms``, ``retention.bytes`` and log start offset; returns how many."""
        return retention.delete_old_segments(self, now_ms, max_segments)

    # --- durability -------------------------------------------------------------------

    def sync_targets(self) -> SyncTargets:
        """The files to sync so that all records below the log end offset are durable."""
        files = (self.active.file,) if self.end_offset > self.recovery_point else ()
        return self._unsynced.targets(self.disk, self.path, self.end_offset, files, self.epochs)

    def mark_flushed(self, targets: SyncTargets, now_ms: int) -> None:
        """Raise the recovery point after ``targets.run()`` has returned."""
        if targets.generation != self._unsynced.generation:
            return
        self.flushed_ms = now_ms
        self._unsynced.mark_synced(targets, self.epochs)
        durable = targets.end_offset
        if self._unsynced.segments:
            for segment, following in pairwise(self.segments):
                if segment in self._unsynced.segments:
                    # Sealed while the flush ran: its indexes are not durable, so recovery must start in it.
                    durable = min(durable, following.base_offset - 1)
        self.recovery_point = max(self.recovery_point, durable)

    def flush(self, now_ms: int) -> None:
        targets = self.sync_targets()
        targets.run()
        self.mark_flushed(targets, now_ms)

    @property
    def has_unsynced_files(self) -> bool:
        """Whether files other than the active segment must be synced soon, whatever ``flush.ms`` says."""
        return bool(self._unsynced or self.epochs.dirty)

    @property
    def is_dirty(self) -> bool:
        """Whether there is anything to flush."""
        return self.end_offset > self.recovery_point or self.has_unsynced_files

    def prepare_close(self) -> None:
        """Write the indexes and the producer state snapshot of a clean shutdown, without syncing them."""
        self.complete_swap()
        self.write_producer_snapshot()
        self.write_txn_index_checkpoint()
        if self.active.offset_index is not None:
            self.active.write_indexes()
            self._unsynced.add_segment(self.active)

    def close(self, now_ms: int) -> None:
        """Close the log cleanly."""
        if self.failure is None:
            self.prepare_close()
            if self.is_dirty:
                self.flush(now_ms)
        self.release()
