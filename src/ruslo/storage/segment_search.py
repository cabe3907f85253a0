"""Searches in a segment that an earlier run wrote and that may have been damaged since.

Until the headers of a byte range have been walked once (``CheckedRanges``), a search does not trust what
``Segment.find`` returns: it walks from an index entry that matches its batch. Every offset of the segment is
below ``limit``.
"""

from __future__ import annotations

from ruslo.records.batch import (
    BASE_OFFSET,
    LAST_OFFSET_DELTA,
    HeaderFields,
    last_offset_of,
    size_of,
)
from ruslo.storage.batch_scan import scan_headers
from ruslo.storage.damage import DamagedRange
from ruslo.storage.header_walk import walk_headers
from ruslo.storage.segment import Segment

CHECK_BYTES = 1 << 20
_EARLIER_ENTRIES = 8
"""Index entries before the best one that a search tries before it walks the segment from its start."""
_LATER_ENTRIES = 1024
"""Index entries after a damaged range that are tried to find where the range ends."""


def find_checked(segment: Segment, offset: int, limit: int) -> tuple[int, HeaderFields] | None:
    """As ``Segment.find``; raises DamagedRange if a batch before the result is damaged."""
    found = segment.find(offset)
    if segment.checked is None or (found is not None and segment.checked.cover(found[0], found[0] + 1)):
        return found
    index = segment.offset_entries()
    at = index.count_below(offset - segment.base_offset + 1, 0) if index is not None else 0
    for entry in range(at - 1, max(at - 1 - _EARLIER_ENTRIES, -1), -1):
        assert index is not None
        start = index.entry(entry)
        header = _indexed_header(segment, start, limit)
        if header is not None and header[BASE_OFFSET] <= offset:
            return _walk_to(segment, start[1], None, offset, limit)
    return _walk_to(segment, 0, segment.base_offset, offset, limit)


def _walk_to(
    segment: Segment, start: int, expected: int | None, offset: int, limit: int
) -> tuple[int, HeaderFields] | None:
    """Walk to an offset. If batches on the way are damaged, the offset index may still know its position."""
    try:
        for position, header in walk_headers(segment.file, start, segment.size, expected, limit):
            if header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] >= offset:
                return position, header
    except DamagedRange as damaged:
        found = first_indexed_after(segment, damaged.position, limit)
        if found is not None and found[1][BASE_OFFSET] <= offset <= last_offset_of(found[1]):
            return found
        raise
    return None


def first_indexed_after(segment: Segment, position: int, limit: int) -> tuple[int, HeaderFields] | None:
    """The first batch after a position that has a matching entry in the offset index."""
    index = segment.offset_entries()
    if index is None:
        return None
    first = index.count_below(position + 1, 1)
    for at in range(first, min(first + _LATER_ENTRIES, len(index))):
        entry = index.entry(at)
        header = _indexed_header(segment, entry, limit)
        if header is not None:
            return entry[1], header
    return None


def _indexed_header(segment: Segment, entry: tuple[int, int], limit: int) -> HeaderFields | None:
    """The header of the batch that an offset index entry names; None if they do not match."""
    offset, position = segment.base_offset + entry[0], entry[1]
    for at, header in scan_headers(segment.file, position, segment.size):
        if at == position and last_offset_of(header) == offset and 0 <= header[LAST_OFFSET_DELTA] <= entry[0]:
            return header if offset < limit else None
        return None
    return None


def check_read(segment: Segment, position: int, size: int, header: HeaderFields, limit: int) -> int:
    """How many bytes of a read that starts with a batch may be sent: those whose headers are sound.

    Headers are walked once, about ``CHECK_BYTES`` at a time. Raises DamagedRange if no byte may be sent.
    """
    checked = segment.checked
    if checked is None or checked.cover(position, min(position + size, segment.size)):
        return size
    stop = min(position + min(size, CHECK_BYTES), segment.size)
    reached = position
    try:
        for at, each in walk_headers(segment.file, position, segment.size, header[BASE_OFFSET], limit):
            if at >= stop and at > position:
                break
            reached = at + size_of(each)
    except DamagedRange:
        if reached == position:
            raise
        stop = reached
    checked.add(position, reached)
    return min(size, max(stop - position, size_of(header)))


def next_indexed_offset(segment: Segment, position: int, limit: int) -> int | None:
    """The offset of the first index entry at or past a position; None if no entry can be trusted."""
    index = segment.offset_entries()
    at = index.count_below(position, 1) if index is not None else 0
    if index is None or at == len(index):
        return None
    entry = index.entry(at)
    if segment.checked is not None and (
        entry[1] < position or _indexed_header(segment, entry, limit) is None
    ):
        return None
    return segment.base_offset + entry[0]
