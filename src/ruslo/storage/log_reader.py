"""Searching a log: reads away from its tail, by timestamp, and for aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.records.batch import BASE_OFFSET, LEADER_EPOCH, MAX_TIMESTAMP, HeaderFields, size_of
from ruslo.records.reader import read_records
from ruslo.storage.damage import Damage, DamagedRange
from ruslo.storage.disk import FileSlice
from ruslo.storage.header_walk import walk_headers
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import LOG_SUFFIX, Segment
from ruslo.storage.segment_search import check_read, find_checked, first_indexed_after, next_indexed_offset
from ruslo.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from ruslo.storage.log import Log


class LogRead(NamedTuple):
    slice: FileSlice | None
    """None if there is nothing to read yet."""
    first_batch_offset: int
    """Base offset of the first batch, which may be below the fetch offset; -1 without a slice."""


EMPTY_READ = LogRead(None, -1)


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def segment_at(segments: list[Segment], offset: int) -> int:
    """The index of the segment that has ``offset``: the last whose base offset is not above it."""
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


def read(log: Log, offset: int, max_bytes: int, upper_bound: int, min_one_batch: bool) -> LogRead:
    """As ``Log.read``, for offsets of older batches."""
    segments = log.segments
    at = segment_at(segments, offset)
    try:
        found = find_checked(segments[at], offset, offset_limit(log, at))
        # Compaction leaves gaps, even at the end of a segment.
        while found is None:
            check_gap(log, at)
            if at + 1 == len(segments):
                return EMPTY_READ
            at += 1
            found = find_checked(segments[at], offset, offset_limit(log, at))
        segment, (position, header) = segments[at], found
        size = _end_position(log, at, upper_bound) - position
        if size > max_bytes:
            first = size_of(header)
            if first <= max_bytes:
                size = max_bytes
            else:
                size = first if min_one_batch else 0
        if size <= 0:
            return EMPTY_READ
        size = check_read(segment, position, size, header, offset_limit(log, at))
    except DamagedRange as damaged:
        note_damage(log, at, damaged)
        raise
    return LogRead(FileSlice(segment.file, position, size), header[BASE_OFFSET])


def offset_limit(log: Log, at: int) -> int:
    """An offset that all offsets of a segment are below."""
    return log.segments[at + 1].base_offset if at + 1 < len(log.segments) else log.end_offset


def _end_position(log: Log, at: int, upper_bound: int) -> int:
    """The position in a segment before which all offsets are below ``upper_bound``."""
    segment, limit = log.segments[at], offset_limit(log, at)
    if upper_bound >= limit:
        return segment.size
    try:
        bounded = find_checked(segment, upper_bound, limit)
    except DamagedRange as damaged:
        return damaged.position
    return bounded[0] if bounded is not None else segment.size


def check_gap(log: Log, at: int) -> None:
    """Raise DamagedRange unless compaction may have left the gap at the end of a segment."""
    segment, limit = log.segments[at], offset_limit(log, at)
    end_offset = segment.next_offset()
    if end_offset is None or end_offset >= limit:
        return
    # A gap larger than a segment can hold is not a lost end: a follower received that gap.
    may_have_gap = log.may_have_gap(limit) or limit - segment.base_offset > MAX_RELATIVE_OFFSET + 1
    if not may_have_gap or segment.is_indexed_past(end_offset):
        problem = f"{segment.path_of(LOG_SUFFIX)} ends before it"
        raise DamagedRange(segment.size, end_offset, problem)


def note_damage(log: Log, at: int, damaged: DamagedRange) -> None:
    """Record a damaged range, so the next read of it fails without a search."""
    segment, limit = log.segments[at], offset_limit(log, at)
    following = first_indexed_after(segment, damaged.position, limit)
    end_offset = following[1][BASE_OFFSET] if following is not None else limit
    first_offset = max(damaged.first_offset, segment.base_offset)
    if first_offset < end_offset:
        log.damage.add(Damage(first_offset, end_offset, segment.base_offset, damaged.problem))


def end_of_read(log: Log, read: LogRead) -> int:
    if read.slice is None:
        return log.end_offset
    at = segment_at(log.segments, read.first_batch_offset)
    limit = offset_limit(log, at)
    indexed = next_indexed_offset(log.segments[at], read.slice.position + read.slice.size, limit)
    return limit if indexed is None else indexed


def aborted_transactions(segments: list[Segment], offset: int, upper: int) -> list[AbortedTransaction]:
    """The aborted transactions that touch records in [offset, upper), in marker order; maybe others."""
    found: list[AbortedTransaction] = []
    for segment in segments[segment_at(segments, offset) :]:
        for aborted in segment.txn_index.entries(offset):
            if aborted.first_offset < upper:
                found.append(aborted)
            # The last stable offset never decreases, so later transactions started at or past it.
            if aborted.last_stable_offset >= upper:
                return found
    return found


def offset_for_timestamp(log: Log, timestamp: int, bound: int) -> TimestampedOffset | None:
    for at, segment in enumerate(log.segments):
        if segment.base_offset >= bound:
            return None
        if not segment.size or segment.retention_timestamp() < timestamp:
            continue
        found = _first_at_or_after(log, at, timestamp)
        if found is not None:
            return found if found.offset < bound else None
    return None


def _first_at_or_after(log: Log, at: int, timestamp: int) -> TimestampedOffset | None:
    segment, start_offset, limit = log.segments[at], log.start_offset, offset_limit(log, at)
    try:
        start = find_checked(segment, max(segment.search_start_for_timestamp(timestamp), start_offset), limit)
        if start is None:
            return None
        for position, header in walk_headers(
            segment.file, start[0], segment.size, start[1][BASE_OFFSET], limit
        ):
            if header[MAX_TIMESTAMP] >= timestamp:
                for record in _read_records(segment, position, header):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return record
    except DamagedRange as damaged:
        note_damage(log, at, damaged)
        raise
    return None


def _read_records(segment: Segment, position: int, header: HeaderFields) -> list[TimestampedOffset]:
    batch = segment.file.pread(size_of(header), position)
    try:
        return [
            TimestampedOffset(record.offset, record.timestamp, header[LEADER_EPOCH])
            for record in read_records(batch)
        ]
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header[BASE_OFFSET]}: {error}"
        ) from error


def max_timestamp_offset(log: Log, bound: int) -> TimestampedOffset | None:
    segment = max(log.segments, key=lambda segment: segment.largest().timestamp)
    largest = segment.largest()
    if largest.timestamp < 0:
        return None
    found = segment.find(largest.relative_offset)
    if found is None:
        return None
    for record in _read_records(segment, *found):
        if record.timestamp == largest.timestamp:
            return record if record.offset < bound else None
    return None
