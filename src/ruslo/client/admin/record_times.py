"""The times of single records: the first at or after an offset, the last before one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ruslo.client.admin.offsets import Offsets, Spec
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.raw import RawClient
from ruslo.model.buffers import ReadBuffer
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import NO_TIMESTAMP
from ruslo.records.reader import iter_batches, read_records

_BYTES_PER_LOOK = 64 * 1024
"""Of a batch that is larger, brokers send the whole all the same."""
_LOOKS_AHEAD = 32
_LOOKS_BACK = 8
"""Markers of transactions and holes that compaction left are passed over, but not without end."""


class RecordTime(NamedTuple):
    offset: int
    timestamp_ms: int | None
    """None when the record has no time, or was not found within a bounded search."""


class RecordTimes:
    """Raises what a fetch raises, and ProtocolError for batches that cannot be read."""

    def __init__(self, cluster: Cluster) -> None:
        self._raw = RawClient(cluster)
        self._offsets = Offsets(cluster)

    async def first_from(self, partition: TopicPartition, offset: int, end: int) -> RecordTime | None:
        """The first record from ``offset`` on and before ``end``; None when there is none."""
        position = offset
        for _ in range(_LOOKS_AHEAD):
            if position >= end:
                return None
            records = await self._look(partition, position)
            for record in _data_records(records):
                if offset <= record.offset < end:
                    return record
            following = _offset_behind(records)
            if following is None:
                return None
            position = max(position + 1, following)
        return RecordTime(position, None)

    async def last_before(self, partition: TopicPartition, end: int, start: int) -> RecordTime | None:
        """The last record before ``end`` and not before ``start``; None when there is none.

        Going back, one has to guess where a batch may begin. When the guesses miss (a long hole, many
        markers), the record with the greatest time is the next best answer.
        """
        position = end - 1
        for _ in range(_LOOKS_BACK):
            if position < start:
                return None
            records = await self._look(partition, position)
            last = None
            for record in _data_records(records):
                if start <= record.offset < end:
                    last = record
            if last is not None:
                return last
            first = next((header.base_offset for _, header in iter_batches(records)), position)
            position = min(position, first) - 1
        youngest = (await self._offsets.find({partition: Spec.MAX_TIMESTAMP}))[partition]
        if start <= youngest.offset < end and youngest.timestamp_ms >= 0:
            return RecordTime(youngest.offset, youngest.timestamp_ms)
        return RecordTime(position, None)

    async def _look(self, partition: TopicPartition, offset: int) -> ReadBuffer:
        fetched = await self._raw.fetch(
            {partition: offset}, max_wait_ms=0, partition_max_bytes=_BYTES_PER_LOOK
        )
        return fetched[partition].records


def _data_records(records: ReadBuffer) -> Iterator[RecordTime]:
    view = memoryview(records)
    for position, header in iter_batches(records):
        if not header.is_control:
            for record in read_records(view[position : position + header.size]):
                known = record.timestamp > NO_TIMESTAMP
                yield RecordTime(record.offset, record.timestamp if known else None)


def _offset_behind(records: ReadBuffer) -> int | None:
    last = None
    for _, header in iter_batches(records):
        last = header.last_offset + 1
    return last
