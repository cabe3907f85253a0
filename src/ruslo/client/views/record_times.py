"""Timestamps of single records: the first at or after an offset, the last before one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.client.wire.raw import RawClient
from ruslo.model.buffers import ReadBuffer
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import NO_TIMESTAMP
from ruslo.records.reader import iter_batches, read_records

_FETCH_BYTES = 64 * 1024
"""The fetch size; brokers return a larger first batch in full."""
_FORWARD_FETCHES_MAX = 32
_BACKWARD_FETCHES_MAX = 8
"""These bound the search past transaction markers and offsets that compaction removed."""


class RecordTime(NamedTuple):
    offset: int
    timestamp_ms: int | None
    """None when the record has no timestamp or the bounded search did not find it."""


class RecordTimes:
    """Raises what a fetch raises, and ProtocolError for batches that cannot be read."""

    def __init__(self, admin: Admin) -> None:
        self._raw = RawClient(admin.cluster)
        self._offsets = admin.offsets

    async def first_from(self, partition: TopicPartition, offset: int, end: int) -> RecordTime | None:
        """The first record at or after ``offset`` and before ``end``, or None."""
        position = offset
        for _ in range(_FORWARD_FETCHES_MAX):
            if position >= end:
                return None
            records = await self._fetch(partition, position)
            for record in _data_records(records):
                if offset <= record.offset < end:
                    return record
            following = _end_offset(records)
            if following is None:
                return None
            position = max(position + 1, following)
        return RecordTime(position, None)

    async def last_before(self, partition: TopicPartition, end: int, start: int) -> RecordTime | None:
        """The last record before ``end`` and at or after ``start``, or None.

        A backward search guesses where a batch may start. If a long gap or many markers defeat the guesses,
        the record with the greatest timestamp is returned instead.
        """
        position = end - 1
        for _ in range(_BACKWARD_FETCHES_MAX):
            if position < start:
                return None
            records = await self._fetch(partition, position)
            last = None
            for record in _data_records(records):
                if start <= record.offset < end:
                    last = record
            if last is not None:
                return last
            first = next((header.base_offset for _, header in iter_batches(records)), position)
            position = min(position, first) - 1
        newest = (await self._offsets.find({partition: Spec.MAX_TIMESTAMP}))[partition]
        if start <= newest.offset < end and newest.timestamp_ms >= 0:
            return RecordTime(newest.offset, newest.timestamp_ms)
        return RecordTime(position, None)

    async def _fetch(self, partition: TopicPartition, offset: int) -> ReadBuffer:
        fetched = await self._raw.fetch({partition: offset}, max_wait_ms=0, partition_max_bytes=_FETCH_BYTES)
        return fetched[partition].records


def _data_records(records: ReadBuffer) -> Iterator[RecordTime]:
    view = memoryview(records)
    for position, header in iter_batches(records):
        if not header.is_control:
            for record in read_records(view[position : position + header.size]):
                known = record.timestamp > NO_TIMESTAMP
                yield RecordTime(record.offset, record.timestamp if known else None)


def _end_offset(records: ReadBuffer) -> int | None:
    last = None
    for _, header in iter_batches(records):
        last = header.last_offset + 1
    return last
