"""Recovers the segments of a log that is being opened, and finds the log end offset.

* After a clean shutdown only the sizes and last entries of indexes are checked, and the last few batches.
* After an unclean shutdown the segments from the recovery point on are read batch by batch. The log is
  truncated at the first batch that is torn or damaged, and the indexes of those segments are rebuilt.
* Damage below the recovery point stays where it is (see ``damage.py``): those records were durable.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ProtocolError
from ruslo.records.batch import (
    BASE_OFFSET,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    NO_PRODUCER_ID,
    PRODUCER_ID,
    HeaderFields,
    last_offset_of,
    size_of,
)
from ruslo.storage.batch_scan import SCAN_BYTES, scan_batches, scan_headers
from ruslo.storage.checkpoints import CheckpointedState, TxnIndexChecksum
from ruslo.storage.damage import Damage, DamagedRange, DamageList
from ruslo.storage.disk import Disk
from ruslo.storage.header_walk import walk_headers
from ruslo.storage.index_check import find_fault
from ruslo.storage.leader_epochs import NO_EPOCH, LeaderEpochCache
from ruslo.storage.log_reader import segment_at
from ruslo.storage.partition_files import snapshot_offsets
from ruslo.storage.producer_replay import load_producers, replay_batch
from ruslo.storage.producer_state import ProducerStates
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import LOG_SUFFIX, Segment
from ruslo.storage.sound_batches import ScannedRange, check_batch_checksum, sound_batches
from ruslo.storage.trash import Trash

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SegmentRecovery:
    disk: Disk
    path: str
    names: set[str]
    segments: list[Segment]
    config: LogConfig
    checkpointed: CheckpointedState
    trash: Trash
    epochs: LeaderEpochCache
    txn_index_checksums: dict[int, TxnIndexChecksum]
    """Checksums of the transaction indexes at the last roll or clean shutdown, by base offset."""
    on_recovered: Callable[[], None] | None
    """Called for every segment that was read."""
    recovered: list[Segment] = field(default_factory=list)
    reindexed: list[Segment] = field(default_factory=list)
    """Other segments whose indexes were rebuilt."""
    damage: DamageList = field(default_factory=DamageList)
    producers: ProducerStates | None = None
    """The producer state at the log end offset; None if the last segment was not recovered."""
    _last_epoch: int = NO_EPOCH
    """Leader epoch of the last batch that was read."""

    def run(self) -> int:
        """Recover what must be recovered; returns the log end offset."""
        first_unsynced = len(self.segments)
        if not self.checkpointed.clean:
            first_unsynced = segment_at(self.segments, self.checkpointed.recovery_point)
        bases: list[int | None] = [segment.base_offset for segment in self.segments[1:]]
        for at, (segment, next_base) in enumerate(zip(self.segments, [*bases, None], strict=True)):
            known = self.txn_index_checksums.get(segment.base_offset)
            is_trusted = at < first_unsynced
            fault = find_fault(segment, next_base, known) if is_trusted and segment.size else None
            suspicious = fault is not None or (is_trusted and not segment.size)
            if suspicious and self._note_lost_end(segment, next_base):
                continue
            if fault is not None:
                logger.warning("Rebuilding the indexes of a segment: %s", fault)
                self._rebuild_indexes(at, keep_txn_index=known == segment.txn_index.checksum())
            elif at + 1 == first_unsynced and next_base == self.checkpointed.recovery_point:
                self._rebuild_unsynced_indexes(segment)
        if first_unsynced < len(self.segments):
            return self._recover_from(first_unsynced)
        end_offset = self.segments[-1].next_offset()
        if end_offset is None:
            logger.warning("Recovering %s after a clean shutdown: it does not end with a batch", self.path)
            end_offset = self._recover_from(len(self.segments) - 1)
        return end_offset

    def _note_lost_end(self, segment: Segment, next_base: int | None) -> bool:
        """Whether a sealed segment ends before its indexes or the next segment say; if so, note the damage.

        Its indexes stay as they are: they prove the loss and know the positions of the lost batches.
        """
        if next_base is None or (segment.size and not segment.is_shorter_than_index()):
            return False
        end_offset = _walk_to_end(segment, next_base)
        if end_offset >= next_base:
            return False
        may_have_gap = (
            self.config.compacts
            or next_base <= self.checkpointed.compacted_below
            or next_base - segment.base_offset > MAX_RELATIVE_OFFSET + 1
        )
        if may_have_gap and not segment.is_indexed_past(end_offset):
            return False
        path = segment.path_of(LOG_SUFFIX)
        problem = f"{path} is empty" if not segment.size else f"the end of {path} is lost"
        self.damage.add(Damage(end_offset, next_base, segment.base_offset, problem))
        segment.release_files()
        return True

    def _rebuild_indexes(self, at: int, *, keep_txn_index: bool) -> None:
        """Rebuild the indexes of a segment below the recovery point. Its ``.log`` file stays as it is.

        A transaction index whose checksum is right is kept: it may have entries for markers that are damaged
        now, while the records of their transactions are readable.
        """
        producers = ProducerStates() if keep_txn_index else self._producers_before(at)
        segment, size = self.segments[at], self.segments[at].size
        is_last = at + 1 == len(self.segments)
        limit = (
            segment.base_offset + MAX_RELATIVE_OFFSET + 1 if is_last else self.segments[at + 1].base_offset
        )
        segment.reset_indexes()
        if not keep_txn_index:
            segment.txn_index.delete()
        damaged: ScannedRange | None = None
        for found in sound_batches(
            segment.file, size, segment.base_offset, limit, check=check_batch_checksum
        ):
            header = found.header
            if header is None:
                damaged = damaged or found
                continue
            if damaged is not None:
                self._note_damage(segment, damaged, header[BASE_OFFSET])
                damaged = None
            self._index_batch(segment, found.position, header)
            if header[PRODUCER_ID] != NO_PRODUCER_ID and not keep_txn_index:
                with contextlib.suppress(ProtocolError):
                    batch = segment.file.pread(found.size, found.position)
                    aborted = replay_batch(producers, header, batch)
                    if aborted is not None:
                        segment.txn_index.append(aborted)
        if damaged is not None and not is_last:
            self._note_damage(segment, damaged, limit)
        segment.size = size
        _write_indexes(segment)
        self.reindexed.append(segment)

    def _index_batch(self, segment: Segment, position: int, header: HeaderFields) -> None:
        interval = self.config.index_interval_bytes
        segment.note_batch(position, last_offset_of(header), size_of(header), header[MAX_TIMESTAMP], interval)

    def _note_damage(self, segment: Segment, found: ScannedRange, end_offset: int) -> None:
        if found.offset < end_offset:
            problem = f"{segment.path_of(LOG_SUFFIX)}, byte {found.position}: {found.problem}"
            self.damage.add(Damage(found.offset, end_offset, segment.base_offset, problem))

    def _rebuild_unsynced_indexes(self, segment: Segment) -> None:
        """Rebuild the offset and time index of a segment that was sealed just below the recovery point.

        Its records and its transaction index are durable. Its other indexes were written by the roll and may
        not have been synced since.
        """
        headers = list(scan_headers(segment.file, 0, segment.size, SCAN_BYTES))
        if sum(size_of(header) for _, header in headers) == segment.size:
            segment.reset_indexes()
            for position, header in headers:
                self._index_batch(segment, position, header)
            _write_indexes(segment)
            self.reindexed.append(segment)
        segment.release_files()

    def _recover_from(self, first: int) -> int:
        """Recover a segment and those after it, and drop all after the first damage; returns the end offset.

        A power failure may take whole batches from the end of an unsynced segment and leave the segment after
        it. Every batch is sound then, yet records between the two are missing.
        """
        at = first
        self._last_epoch = NO_EPOCH
        end_offset = self.segments[first].base_offset
        self.producers = self._producers_before(first)
        while at < len(self.segments):
            sound, end_offset = self._recover(at, self.producers)
            at += 1
            if sound and at < len(self.segments):
                problem = self._find_break(at, end_offset)
                if problem is not None:
                    sound = False
                    logger.warning("%s: %s", self.path, problem)
            if not sound and at < len(self.segments):
                count = len(self.segments) - at
                logger.warning("Deleting %d segments after the damage in %s", count, self.path)
                while len(self.segments) > at:
                    self.trash.add_files(self.segments.pop().mark_deleted(), self.config.file_delete_delay_ms)
        return end_offset

    def _find_break(self, at: int, end_offset: int) -> str | None:
        """Why a segment does not continue the one before it; None if it does."""
        segment = self.segments[at]
        base = segment.base_offset
        first = next(scan_headers(segment.file, 0, segment.size), None)
        if base < end_offset or (first is not None and NO_EPOCH < first[1][LEADER_EPOCH] < self._last_epoch):
            # A power failure undid the rename to .deleted, but not what was appended in its stead.
            return f"the segment at offset {base} is from before the log was truncated"
        if base <= max(end_offset, self.checkpointed.gaps_below):
            return None
        # A gap larger than a segment can hold is not a lost end: a follower received that gap.
        if base - self.segments[at - 1].base_offset > MAX_RELATIVE_OFFSET + 1:
            return None
        return f"the records from offset {end_offset} to {base - 1} are lost"

    def _producers_before(self, at: int) -> ProducerStates:
        """The producer state at the base offset of a segment."""
        base = self.segments[at].base_offset
        snapshots = [offset for offset in snapshot_offsets(self.names) if offset <= base]
        return load_producers(self.disk, self.path, self.segments[: at + 1], snapshots, base)[0]

    def _recover(self, at: int, producers: ProducerStates) -> tuple[bool, int]:
        """Check the batches of a segment, truncate it at the first bad one and rebuild its indexes.

        Returns whether it was sound to its end, and its next offset.
        """
        segment = self.segments[at]
        base = segment.base_offset
        size = segment.size
        segment.reset_indexes()
        segment.checked = None
        if segment.txn_index.exists:
            segment.txn_index.delete()
        next_offset = base
        for position, header, batch in scan_batches(segment.file, size):
            last_offset = last_offset_of(header)
            if (
                header[BASE_OFFSET] < next_offset
                or header[LAST_OFFSET_DELTA] < 0
                or last_offset - base > MAX_RELATIVE_OFFSET
            ):
                break
            try:
                aborted = replay_batch(producers, header, batch)
            except ProtocolError:
                break
            self.epochs.note_batch(header[LEADER_EPOCH], header[BASE_OFFSET])
            self._index_batch(segment, position, header)
            next_offset = last_offset + 1
            self._last_epoch = header[LEADER_EPOCH]
            if aborted is not None:
                segment.txn_index.append(aborted)
        if segment.size < size:
            logger.warning(
                "Truncated %s to offset %d, from %d to %d bytes: no sound batch follows",
                segment.path_of(LOG_SUFFIX),
                next_offset,
                size,
                segment.size,
            )
            segment.file.truncate(segment.size)
        _write_indexes(segment)
        self.recovered.append(segment)
        if self.on_recovered is not None:
            self.on_recovered()
        return segment.size == size, next_offset


def _write_indexes(segment: Segment) -> None:
    segment.write_indexes()
    segment.seal()
    segment.release_files()


def _walk_to_end(segment: Segment, limit: int) -> int:
    """One past the last offset of a segment whose end may be damaged."""
    end_offset = segment.base_offset
    try:
        for _, header in walk_headers(segment.file, 0, segment.size, end_offset, limit):
            end_offset = last_offset_of(header) + 1
    except DamagedRange as damaged:
        return damaged.first_offset
    return end_offset
