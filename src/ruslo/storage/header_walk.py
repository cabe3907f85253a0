"""Walking over the headers of a segment that was written before this start, and may have been damaged since.

The base offset of a batch is not covered by its checksum, so a walk relies on order: offsets rise, do not
overlap, and stay between the base of the segment and that of the next. Of two batches that overlap, the first
is taken for the damaged one if its checksum is wrong or if it does not continue the batch before it. The last
offset is covered by the checksum, which is looked at where a gap follows.
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
    """Byte ranges of a segment whose headers were walked since the start: reads need not walk them again."""

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
    """Position and header of each batch in [position, end); offsets go from ``expected`` to below ``limit``.

    A header is yielded once the header behind it does not contradict it. ``expected`` is None if the offset
    of the first batch is not known. Raises DamagedRange at the first bytes that cannot be a batch.
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
                raise _no_batch_at(file, previous[0], before)
            before = expected
            yield previous
        continues = header[BASE_OFFSET] == expected
        previous, expected, position = found, last_offset + 1, found[0] + header[LENGTH] + LENGTH_OVERHEAD
    is_whole = position == end and (expected is None or expected == limit)
    if previous is not None:
        if not is_whole and not ((continues or position == end) and _is_sound(file, *previous)):
            raise _no_batch_at(file, previous[0], before)
        yield previous
    if position < end:
        raise _no_batch_at(file, position, expected if expected is not None else -1)


def _no_batch_at(file: DiskFile, position: int, first_offset: int) -> DamagedRange:
    return DamagedRange(position, first_offset, f"{file.path} has no sound batch at byte {position}")


def _is_sound(file: DiskFile, position: int, header: HeaderFields) -> bool:
    batch = memoryview(file.pread(size_of(header), position))
    return crc32c(batch[ATTRIBUTES_AT:]) == header[CRC]
