"""Which records stay: the last of each key, found by going through the log backwards.

Seen from the end, the first record with a key is the one that stays, and every other record with that key
goes. So it is enough to remember which keys came by. They are remembered as they are, not as hashes: two keys
cannot be taken for each other (docs/adr/0007).

When the keys of the dirty part do not fit into memory, the walk goes on to the beginning of the log without
learning new ones, and a further walk begins where the learning stopped. The verdicts of all walks add up, so
that the log is still rewritten only once. A verdict is a byte for each record; windows in which everything
stays need none, others are kept compressed.
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

GOES, STAYS, NEW_TOMBSTONE = 0, 1, 2
"""NEW_TOMBSTONE stays, and its batch has no delete horizon yet."""

_KEY_OVERHEAD = sys.getsizeof(b"") + 8
"""Bytes that a remembered key takes beside its own and its place in the set, on average."""
_SLOT_BYTES = 16

_STAY = bytes([STAYS])
_FAST = 1
_OPPOSITE = bytes([STAYS, GOES]) + bytes(254)


class AbortedRanges:
    """The transactions that were aborted, by producer, to ask whether a batch belongs to one."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        ranges: dict[int, list[tuple[int, int]]] = {}
        for each in aborted:
            ranges.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
        self._ranges = {producer_id: sorted(found) for producer_id, found in ranges.items()}

    def hold(self, header: HeaderFields) -> bool:
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
        """The keys that came by; None is always among them, so that records without key go."""
        self._places: list[int] = []
        """0, 1, 2, … as far as the largest batch so far, so that numbers are not made for each."""
        self._key_bytes = 0
        self._learning = True
        self.passes = 0

    def find(self) -> None:
        """Go through the keys, as often as memory makes it necessary."""
        limit: int | None = None
        while True:
            self.passes += 1
            self._seen = {None}
            self._key_bytes = 0
            self._learning = True
            stopped_at = self._walk(limit)
            self._seen = set()
            if stopped_at is None or stopped_at <= self._task.first_dirty_offset:
                return
            limit = stopped_at

    def of_window(self, source: Source, number: int) -> bytes | None:
        """A byte for each record of a source's window; None if all stay."""
        packed = self._packed[self._first_window[source.segment.base_offset] + number]
        return None if packed is None else zlib.decompress(packed)

    def touch(self, source: Source) -> bool:
        """Whether anything in a segment goes or changes by these verdicts."""
        first = self._first_window.get(source.segment.base_offset)
        return first is not None and any(
            each is not None for each in self._packed[first : first + len(source.windows)]
        )

    def _walk(self, limit: int | None) -> int | None:
        """One walk over the batches below offset ``limit``; the offset where learning stopped, if it did."""
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
                    found.append(_STAY * header[RECORD_COUNT] if known is None else known)
                    continue
                was_learning = self._learning
                found.append(self._judge(source, header, data, position, known))
                if was_learning and not self._learning:
                    stopped_at = header[BASE_OFFSET]
            found.reverse()
            verdicts = b"".join(found)
            if verdicts.count(STAYS) == len(verdicts):
                self._packed[at] = None
            elif verdicts != earlier:
                self._packed[at] = zlib.compress(verdicts, _FAST)
            if window.position == 0:
                source.close()
        return stopped_at

    def _judge(
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
            return _STAY * count
        if attributes & TRANSACTIONAL and self._aborted.hold(header):
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
        if self._learning and last_offset >= self._task.first_dirty_offset:
            verdicts = self._learn(keys, known)
        elif self._seen.isdisjoint(keys):
            verdicts = known or _STAY * count
        else:
            verdicts = _both(bytes(list(map(self._seen.__contains__, keys))).translate(_OPPOSITE), known)
        return self._judge_tombstones(header, tombstones, verdicts) if tombstones else verdicts

    def _learn(self, keys: list[bytes | None], known: bytes | None) -> bytes:
        """Verdicts on records of the dirty part, whose keys are remembered from here on."""
        # Two sets are compared without a call for each key, which is most of what a key costs.
        seen = self._seen
        if seen.issuperset(keys):
            return bytes(len(keys))
        places = self._places
        places.extend(range(len(places), len(keys)))
        last_places = dict(zip(keys, places, strict=False))
        new = set(last_places) - seen
        seen |= new
        self._key_bytes += len(new) * _KEY_OVERHEAD + len(b"".join(filter(None, new)))
        self._learning = self._memory_in_sight() < self._task.memory_bytes
        verdicts = bytearray(len(keys))
        for place in map(last_places.__getitem__, new):
            verdicts[place] = STAYS
        return _both(bytes(verdicts), known)

    def _memory_in_sight(self) -> int:
        """What the keys take, and will take while the set grows if it is about to."""
        table = sys.getsizeof(self._seen)
        is_filling = 2 * len(self._seen) > table // _SLOT_BYTES
        return self._key_bytes + (3 * table if is_filling else table)

    def _judge_tombstones(self, header: HeaderFields, tombstones: list[int], verdicts: bytes) -> bytes:
        has_horizon = header[ATTRIBUTES] & DELETE_HORIZON
        if not has_horizon:
            verdict = NEW_TOMBSTONE
        elif header[BASE_TIMESTAMP] <= self._task.now_ms:
            verdict = GOES
        else:
            return verdicts
        changed = bytearray(verdicts)
        for place in tombstones:
            if changed[place]:
                changed[place] = verdict
        return bytes(changed)


def _both(verdicts: bytes, earlier: bytes | None) -> bytes:
    """What a walk finds, and what earlier walks have found: what one of them drops goes."""
    return verdicts if earlier is None else bytes(map(min, earlier, verdicts))
