"""Verifies the checksums and indexes of one segment, a slice at a time, while its log is in use.

``step`` reads and may run in a thread. ``apply`` runs on the event loop after the whole segment was read: it
notes damaged ranges and replaces indexes that do not match the segment. It does nothing if the log was
truncated or compacted meanwhile.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ruslo.model.errors import CorruptLogError, ProtocolError
from ruslo.records.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    last_offset_of,
    size_of,
)
from ruslo.storage import txn_index
from ruslo.storage.damage import Damage, DamagedRange
from ruslo.storage.index_check import OffsetIndexCheck, TimeIndexCheck
from ruslo.storage.log_reader import check_gap, offset_limit
from ruslo.storage.producer_replay import load_snapshot, replay_batch
from ruslo.storage.producer_snapshot import snapshot_path
from ruslo.storage.producer_state import ProducerStates
from ruslo.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from ruslo.storage.sound_batches import ScannedRange, check_batch_checksum, sound_batches

if TYPE_CHECKING:
    from ruslo.storage.log import Log
    from ruslo.storage.txn_index import AbortedTransaction


class SegmentScrub:
    def __init__(self, log: Log, segment: Segment, producers: ProducerStates | None) -> None:
        """``producers``: the producer state at the base offset of the segment, if known."""
        self.log = log
        self.segment = segment
        self.size = segment.size
        self.bytes_read = 0
        self.sound: list[tuple[int, int]] = []
        """Byte ranges of sound batches in the segment."""
        self.damage: list[Damage] = []
        self.problems: list[str] = []
        """Faults of the indexes; set by ``apply``."""
        self.truncations = log.truncations
        self._is_sealed = segment is not log.active
        self._limit = offset_limit(log, log.segments.index(segment))
        self._file = segment.file
        self._batches = sound_batches(
            self._file, self.size, segment.base_offset, self._limit, check=check_batch_checksum
        )
        self._damaged: ScannedRange | None = None
        self._positions: dict[int, int] = {}
        self._is_prepared = False
        self._offsets, self._times = OffsetIndexCheck(b""), TimeIndexCheck(b"")
        self._rebuilt = Segment(log.disk, log.path, segment.base_offset, 0, segment.created_ms)
        self._rebuilt.reset_indexes()
        self._interval = log.config.index_interval_bytes
        self.producers = producers
        self._aborted: list[AbortedTransaction] = []
        self._markers: dict[int, int] = {}

    def _prepare(self) -> None:
        """Read the files of the segment other than the ``.log`` file, which may take a while too."""
        self._is_prepared = True
        self._offsets = OffsetIndexCheck(self._read_index(INDEX_SUFFIX))
        self._times = TimeIndexCheck(self._read_index(TIME_INDEX_SUFFIX))
        if self.producers is None:
            self.producers = self._load_producers()

    def _read_index(self, kind: str) -> bytes:
        path = self.segment.path_of(kind)
        is_there = self._is_sealed and self.log.disk.status(path) is not None
        return self.log.disk.read_file(path) if is_there else b""

    def _load_producers(self) -> ProducerStates | None:
        producers, base_offset = ProducerStates(), self.segment.base_offset
        if base_offset == 0 or load_snapshot(
            self.log.disk, snapshot_path(self.log.path, base_offset), producers
        ):
            return producers
        return None

    # -- reading -----------------------------------------------------------------------------------------

    def step(self, max_bytes: int) -> bool:
        """Check about ``max_bytes`` more; True after the whole segment was checked."""
        if not self._is_prepared:
            self._prepare()
        until = self.bytes_read + max_bytes
        for found in self._batches:
            self.bytes_read = found.position + found.size
            if found.header is None:
                self._damaged = self._damaged or found
            else:
                self._check(found)
            if self.bytes_read >= until:
                return False
        if self._damaged is not None:
            self._end_damage(self._limit)
        return True

    def _check(self, found: ScannedRange) -> None:
        header, position = found.header, found.position
        assert header is not None
        if self._damaged is not None:
            self._end_damage(header[BASE_OFFSET])
        if self.sound and self.sound[-1][1] == position:
            self.sound[-1] = (self.sound[-1][0], position + found.size)
        else:
            self.sound.append((position, position + found.size))
        last_offset = last_offset_of(header)
        self._offsets.check_batch(position, last_offset - self.segment.base_offset)
        self._times.check_batch(header[MAX_TIMESTAMP], last_offset - self.segment.base_offset)
        self._rebuilt.note_batch(position, last_offset, found.size, header[MAX_TIMESTAMP], self._interval)
        if header[PRODUCER_ID] >= 0 and self.producers is not None:
            if header[ATTRIBUTES] & CONTROL:
                self._markers[header[BASE_OFFSET]] = header[PRODUCER_ID]
            with contextlib.suppress(ProtocolError):
                batch = self._file.pread(size_of(header), position)
                aborted = replay_batch(self.producers, header, batch)
                if aborted is not None:
                    self._aborted.append(aborted)

    def _end_damage(self, end_offset: int) -> None:
        damaged, self._damaged = self._damaged, None
        assert damaged is not None
        problem = f"{self.segment.path_of(LOG_SUFFIX)}, byte {damaged.position}: {damaged.problem}"
        if damaged.offset < end_offset:
            self._positions[damaged.offset] = damaged.position
            self.damage.append(Damage(damaged.offset, end_offset, self.segment.base_offset, problem))

    def position_of(self, damage: Damage) -> int:
        """The position of a damaged range, or the end of the segment if its bytes are missing."""
        return self._positions.get(damage.first_offset, self.size)

    # -- results -----------------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Whether the log still has the segment as it was when the check started."""
        log = self.log
        is_sealed = self.segment is not log.active
        return (
            log.failure is None
            and log.truncations == self.truncations
            and self.segment in log.segments
            and is_sealed == self._is_sealed
        )

    def apply(self) -> bool:
        """Record the results in the log; False, and no change, if the segment is no longer current."""
        log, segment = self.log, self.segment
        if not self.is_current:
            return False
        if self._is_sealed and not self.damage:
            self._find_lost_end()
        log.damage.forget_segment(segment.base_offset)
        for damage in self.damage:
            log.damage.add(damage)
        log.damage.keep_between(log.start_offset, log.end_offset)
        if self._is_sealed and not self.damage:
            self._replace_indexes()
        if self.damage:
            self.producers = None
        return True

    def _find_lost_end(self) -> None:
        try:
            check_gap(self.log, self.log.segments.index(self.segment))
        except DamagedRange as damaged:
            base_offset = self.segment.base_offset
            self.damage.append(Damage(damaged.first_offset, self._limit, base_offset, damaged.problem))

    def _replace_indexes(self) -> None:
        segment, disk = self.segment, self.log.disk
        for kind, problem in (
            (INDEX_SUFFIX, self._offsets.problem()),
            (TIME_INDEX_SUFFIX, self._times.problem()),
        ):
            if problem is not None or (self.size and disk.status(segment.path_of(kind)) is None):
                self.problems.append(f"{segment.path_of(kind)}: {problem or 'it is missing'}")
        if self.problems and not segment.suffix:
            self._rebuilt.write_indexes()
            segment.release_files()
            self.log.index_replaced(segment)
        if self.producers is not None:
            self._check_txn_index()

    def _check_txn_index(self) -> None:
        """Compare the transaction index with the markers of the segment."""
        segment = self.segment
        found: list[AbortedTransaction] = []
        problem = None
        try:
            if segment.txn_index.exists:
                path = segment.path_of(TXN_INDEX_SUFFIX)
                found = list(txn_index.parse(self.log.disk.read_file(path), path))
        except CorruptLogError as error:
            problem = str(error)
        # Compaction removes the records of an aborted transaction before its marker and its entry.
        known = [entry for entry in found if self._markers.get(entry.last_offset) == entry.producer_id]
        missing = {entry[:3] for entry in self._aborted} - {entry[:3] for entry in known}
        if problem is None and len(known) == len(found) and not missing:
            return
        entries = {entry.last_offset: entry for entry in (*known, *self._aborted)}
        segment.txn_index.rewrite([entries[offset] for offset in sorted(entries)])
        self.log.write_txn_index_checkpoint()
        problem = (
            problem or f"its entries differ from the {len(self._aborted)} aborted transactions of the segment"
        )
        self.problems.append(f"{segment.path_of(TXN_INDEX_SUFFIX)}: {problem}")
