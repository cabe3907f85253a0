"""Decides which records are retained: the last one of each key, found by reading the log backwards.

Read from the end, the first record with a key is retained, and all others with that key are discarded. So it
is enough to remember the keys that were seen. Keys are stored as they are, not as hashes, so two keys are
never confused (docs/adr/0007).

If the keys of the dirty records do not fit into memory, a pass continues to the start of the log without
adding keys, and the next pass starts where the last one stopped adding them. The verdicts of all passes are
combined, so the log is rewritten only once. A verdict is one byte per record; windows that are retained as a
whole have none, others are kept compressed.
"""

from __future__ import annotations

import sys
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from crc32c import crc32c

from ruslo.model.errors import CorruptLogError, ProtocolError
from ruslo.records.batch import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC_MASK,
    CONTROL,
    CRC,
    DELETE_HORIZON,
    HEADER_SIZE,
    PRODUCER_ID,
    RECORD_COUNT,
    TRANSACTIONAL,
    HeaderFields,
    last_offset_of,
    size_of,
)
from ruslo.records.compression import decompress
from ruslo.records.key_scan import scan_keys
from ruslo.storage.cleaner.task import CleanTask
from ruslo.storage.cleaner.windows import Source
from ruslo.storage.txn_index import AbortedTransaction

DISCARD, RETAIN, NEW_TOMBSTONE = 0, 1, 2
"""NEW_TOMBSTONE is retained, and its batch has no delete horizon yet."""

_KEY_OVERHEAD = sys.getsizeof(b"") + 8
"""Average memory of a key besides its own bytes and its slot in the set."""
_SLOT_BYTES = 16

_RETAIN = bytes([RETAIN])
_ZLIB_LEVEL = 1
_INVERT = bytes([RETAIN, DISCARD]) + bytes(254)


class AbortedRanges:
    """The aborted transactions by producer."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        ranges: dict[int, list[tuple[int, int]]] = {}
        for each in aborted:
            ranges.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
        self._ranges = {producer_id: sorted(found) for producer_id, found in ranges.items()}

    def contain(self, header: HeaderFields) -> bool:
        """Whether a batch belongs to an aborted transaction."""
        found = self._ranges.get(header[PRODUCER_ID])
        if found is None or not header[ATTRIBUTES] & TRANSACTIONAL:
            return False
        at = bisect_right(found, (header[BASE_OFFSET], header[BASE_OFFSET])) - 1
        return any(first <= header[BASE_OFFSET] <= last for first, last in found[max(at, 0) : at + 2])


class Verdicts:
    def __init__(self, task: CleanTask, sources: Sequence[Source], aborted: AbortedRanges) -> None:
        self._task = task
        self._aborted = aborted
        self._windows = [(source, window) for source in sources for window in source.windows]
        self._packed: list[bytes | None] = [None] * len(self._windows)
        self._first_window: dict[int, int] = {}
        for at, (source, _) in enumerate(self._windows):
            self._first_window.setdefault(source.segment.base_offset, at)
        self._seen: set[bytes | None] = set()
        """Keys seen so far. None is always one of them, so records without a key are discarded."""
        self._indexes: list[int] = []
        """0, 1, 2, … up to the size of the largest batch so far; reused for every batch."""
        self._key_bytes = 0
        self._adding = True
        self.passes = 0

    def find(self) -> None:
        """Read all keys, in as many passes as the memory requires."""
        limit: int | None = None
        while True:
            self.passes += 1
            self._seen = {None}
            self._key_bytes = 0
            self._adding = True
            stopped_at = self._pass(limit)
            self._seen = set()
            if stopped_at is None or stopped_at <= self._task.first_dirty_offset:
                return
            limit = stopped_at

    def of_window(self, source: Source, number: int) -> bytes | None:
        """One byte per record of a window; None if all records are retained."""
        packed = self._packed[self._first_window[source.segment.base_offset] + number]
        return None if packed is None else zlib.decompress(packed)

    def change(self, source: Source) -> bool:
        """Whether these verdicts change anything in a segment."""
        first = self._first_window.get(source.segment.base_offset)
        return first is not None and any(
            each is not None for each in self._packed[first : first + len(source.windows)]
        )

    def _pass(self, limit: int | None) -> int | None:
        """Pass over the batches below ``limit``; returns the offset where it stopped adding keys, if any."""
        stopped_at: int | None = None
        for at in range(len(self._windows) - 1, -1, -1):
            source, window = self._windows[at]
            if limit is not None and source.segment.base_offset >= limit:
                continue
            data, headers = source.read(window)
            before = self._packed[at]
            earlier = None if before is None else zlib.decompress(before)
            end = 0 if earlier is None else len(earlier)
            found: list[bytes] = []
            for position, header in reversed(headers):
                start = end - header[RECORD_COUNT]
                known = None if earlier is None else earlier[start:end]
                end = start
                if limit is not None and header[BASE_OFFSET] >= limit:
                    found.append(_RETAIN * header[RECORD_COUNT] if known is None else known)
                    continue
                was_adding = self._adding
                found.append(self._check(source, header, data, position, known))
                if was_adding and not self._adding:
                    stopped_at = header[BASE_OFFSET]
            found.reverse()
            verdicts = b"".join(found)
            if verdicts.count(RETAIN) == len(verdicts):
                self._packed[at] = None
            elif verdicts != earlier:
                self._packed[at] = zlib.compress(verdicts, _ZLIB_LEVEL)
            if window.position == 0:
                source.close()
        return stopped_at

    def _check(
        self, source: Source, header: HeaderFields, data: bytes, position: int, known: bytes | None
    ) -> bytes:
        count, attributes = header[RECORD_COUNT], header[ATTRIBUTES]
        end = position + size_of(header)
        if self.passes == 1 and crc32c(memoryview(data)[position + ATTRIBUTES_AT : end]) != header[CRC]:
            raise CorruptLogError(
                f"{source.path}: the batch at offset {header[BASE_OFFSET]} fails its checksum"
            )
        last_offset = last_offset_of(header)
        if not count or last_offset >= self._task.end_offset or attributes & CONTROL:
            return _RETAIN * count
        if attributes & TRANSACTIONAL and self._aborted.contain(header):
            return bytes(count)
        begin = position + HEADER_SIZE
        try:
            if attributes & CODEC_MASK:
                keys, tombstones = scan_keys(decompress(attributes & CODEC_MASK, data[begin:end]), count)
            else:
                keys, tombstones = scan_keys(data, count, begin, end)
        except ProtocolError as error:
            raise CorruptLogError(
                f"{source.path}: the batch at offset {header[BASE_OFFSET]}: {error}"
            ) from error
        if self._adding and last_offset >= self._task.first_dirty_offset:
            verdicts = self._add_keys(keys, known)
        elif self._seen.isdisjoint(keys):
            verdicts = known or _RETAIN * count
        else:
            verdicts = _combine(bytes(list(map(self._seen.__contains__, keys))).translate(_INVERT), known)
        return self._check_tombstones(header, tombstones, verdicts) if tombstones else verdicts

    def _add_keys(self, keys: list[bytes | None], known: bytes | None) -> bytes:
        """Verdicts on dirty records, whose keys are added to those seen."""
        # Set operations avoid a call per key, which would be most of the cost.
        seen = self._seen
        if seen.issuperset(keys):
            return bytes(len(keys))
        indexes = self._indexes
        indexes.extend(range(len(indexes), len(keys)))
        last_indexes = dict(zip(keys, indexes, strict=False))
        new = set(last_indexes) - seen
        seen |= new
        self._key_bytes += len(new) * _KEY_OVERHEAD + len(b"".join(filter(None, new)))
        self._adding = self._expected_memory() < self._task.memory_bytes
        verdicts = bytearray(len(keys))
        for index in map(last_indexes.__getitem__, new):
            verdicts[index] = RETAIN
        return _combine(bytes(verdicts), known)

    def _expected_memory(self) -> int:
        """The memory of the keys, including that of the resize that the set is about to need."""
        table = sys.getsizeof(self._seen)
        is_filling = 2 * len(self._seen) > table // _SLOT_BYTES
        return self._key_bytes + (3 * table if is_filling else table)

    def _check_tombstones(self, header: HeaderFields, tombstones: list[int], verdicts: bytes) -> bytes:
        has_horizon = header[ATTRIBUTES] & DELETE_HORIZON
        if not has_horizon:
            verdict = NEW_TOMBSTONE
        elif header[BASE_TIMESTAMP] <= self._task.now_ms:
            verdict = DISCARD
        else:
            return verdicts
        changed = bytearray(verdicts)
        for index in tombstones:
            if changed[index]:
                changed[index] = verdict
        return bytes(changed)


def _combine(verdicts: bytes, earlier: bytes | None) -> bytes:
    """Combine the verdicts of passes: a record that one of them discards is discarded."""
    return verdicts if earlier is None else bytes(map(min, earlier, verdicts))
