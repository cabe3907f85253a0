"""Searching a log: reads away from its tail, by timestamp, and for aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.records.batch import LENGTH_OVERHEAD
from ruslo.records.reader import read_records
from ruslo.storage.batch_scan import HeaderFields, scan_headers
from ruslo.storage.disk import FileSlice
from ruslo.storage.segment import Segment
from ruslo.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from ruslo.storage.log import Log


class LogRead(NamedTuple):
    slice: FileSlice | None
    """None: nothing to read there (yet)."""
    first_batch_offset: int
    """Base offset of the first batch, which may lie below the offset asked for; -1 without a slice."""


EMPTY_READ = LogRead(None, -1)


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def segment_at(segments: list[Segment], offset: int) -> int:
    """The place of the segment that holds ``offset``: the last whose base is not above it."""
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


def read(log: Log, offset: int, max_bytes: int, upper_bound: int, min_one_batch: bool) -> LogRead:
    """As ``Log.read``, for offsets that are not at hand in memory."""
    segments = log.segments
    at = segment_at(segments, offset)
    found = segments[at].find(offset)
    # Compaction leaves gaps, also at the end of a segment.
    while found is None and at + 1 < len(segments):
        at += 1
        found = segments[at].find(offset)
    if found is None:
        return EMPTY_READ
    segment, (position, header) = segments[at], found
    next_base = segments[at + 1].base_offset if at + 1 < len(segments) else log.end_offset
    limit = segment.size
    if upper_bound < next_base:
        bounded = segment.find(upper_bound)
        limit = bounded[0] if bounded is not None else segment.size
    size = limit - position
    if size > max_bytes:
        first = header[1] + LENGTH_OVERHEAD
        if first <= max_bytes:
            size = max_bytes
        else:
            size = first if min_one_batch else 0
    if size <= 0:
        return EMPTY_READ
    return LogRead(FileSlice(segment.file, position, size), header[0])


def end_of_read(log: Log, read: LogRead) -> int:
    if read.slice is None:
        return log.end_offset
    at = segment_at(log.segments, read.first_batch_offset)
    indexed = log.segments[at].next_indexed_offset(read.slice.position + read.slice.size)
    if indexed is not None:
        return indexed
    return log.segments[at + 1].base_offset if at + 1 < len(log.segments) else log.end_offset


def aborted_transactions(log: Log, offset: int, upper: int) -> list[AbortedTransaction]:
    found: list[AbortedTransaction] = []
    for segment in log.segments[segment_at(log.segments, offset) :]:
        for aborted in segment.aborts(offset):
            if aborted.first_offset < upper:
                found.append(aborted)
            # The last stable offset only rises, so every later transaction began at or past it.
            if aborted.last_stable_offset >= upper:
                return found
    return found


def offset_for_timestamp(log: Log, timestamp: int, bound: int) -> TimestampedOffset | None:
    for segment in log.segments:
        if segment.base_offset >= bound:
            return None
        if not segment.size or segment.retention_timestamp() < timestamp:
            continue
        found = _first_at_or_after(segment, timestamp, log.start_offset)
        if found is not None:
            return found if found.offset < bound else None
    return None


def _first_at_or_after(segment: Segment, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    start = segment.find(max(segment.search_start_for_timestamp(timestamp), start_offset))
    if start is None:
        return None
    for position, header in scan_headers(segment.file, start[0], segment.size):
        if header[8] >= timestamp:
            for record in _records(segment, position, header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return record
    return None


def _records(segment: Segment, position: int, header: HeaderFields) -> list[TimestampedOffset]:
    batch = segment.file.pread(header[1] + LENGTH_OVERHEAD, position)
    try:
        return [
            TimestampedOffset(record.offset, record.timestamp, header[2]) for record in read_records(batch)
        ]
    except ProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header[0]}: {error}") from error


def max_timestamp_offset(log: Log, bound: int) -> TimestampedOffset | None:
    segment = max(log.segments, key=lambda segment: segment.largest().timestamp)
    largest = segment.largest()
    if largest.timestamp < 0:
        return None
    found = segment.find(largest.relative_offset)
    if found is None:
        return None
    for record in _records(segment, *found):
        if record.timestamp == largest.timestamp:
            return record if record.offset < bound else None
    return None
