"""Walks over the headers of a segment that an earlier run wrote and that may have been damaged since.

The checksum of a batch does not cover its base offset, so a walk relies on the order of batches:

* Offsets ascend, do not overlap, and are between the base offsets of this segment and the next.
* If two batches overlap, the first is the damaged one if its checksum is wrong or if it does not continue the
  batch before it.
* The checksum covers the last offset delta, so it is verified where a gap follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from crc32c import crc32c

from ruslo.records.batch import (
    ATTRIBUTES_AT,
    BASE_OFFSET,
    CRC,
    LAST_OFFSET_DELTA,
    LENGTH,
    LENGTH_OVERHEAD,
    HeaderFields,
    size_of,
)
from ruslo.storage.batch_scan import scan_headers
from ruslo.storage.damage import DamagedRange
from ruslo.storage.disk import DiskFile

_MAX_RANGES = 16


class CheckedRanges:
    """Byte ranges of a segment whose headers this process has walked. Reads do not walk them again."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def cover(self, start: int, stop: int) -> bool:
        return any(first <= start and stop <= end for first, end in self._ranges)

    def add(self, start: int, stop: int) -> None:
        apart = []
        for first, end in self._ranges:
            if first <= stop and start <= end:
                start, stop = min(start, first), max(stop, end)
            else:
                apart.append((first, end))
        self._ranges = [*apart[-_MAX_RANGES + 1 :], (start, stop)]


def walk_headers(
    file: DiskFile, position: int, end: int, expected: int | None, limit: int
) -> Iterator[tuple[int, HeaderFields]]:
    """Position and header of each batch in [position, end); offsets are from ``expected`` to below ``limit``.

    A header is yielded after the next one did not contradict it. ``expected`` is None if the first offset is
    unknown. Raises DamagedRange at the first bytes that cannot be a batch.
    """
    previous: tuple[int, HeaderFields] | None = None
    continues = True
    before = expected if expected is not None else -1
    for found in scan_headers(file, position, end):
        header = found[1]
        if expected is None:
            before = expected = header[BASE_OFFSET]
        last_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
        if header[LAST_OFFSET_DELTA] < 0 or last_offset >= limit or header[BASE_OFFSET] < expected:
            break
        if previous is not None:
            if header[BASE_OFFSET] > expected and not _is_sound(file, *previous):
                raise _damaged_at(file, previous[0], before)
            before = expected
            yield previous
        continues = header[BASE_OFFSET] == expected
        previous, expected, position = found, last_offset + 1, found[0] + header[LENGTH] + LENGTH_OVERHEAD
    is_whole = position == end and (expected is None or expected == limit)
    if previous is not None:
        if not is_whole and not ((continues or position == end) and _is_sound(file, *previous)):
            raise _damaged_at(file, previous[0], before)
        yield previous
    if position < end:
        raise _damaged_at(file, position, expected if expected is not None else -1)


def _damaged_at(file: DiskFile, position: int, first_offset: int) -> DamagedRange:
    return DamagedRange(position, first_offset, f"{file.path} has no sound batch at byte {position}")


def _is_sound(file: DiskFile, position: int, header: HeaderFields) -> bool:
    batch = memoryview(file.pread(size_of(header), position))
    return crc32c(batch[ATTRIBUTES_AT:]) == header[CRC]
