"""Reads records of a topic forwards or backwards from an offset, with an optional filter.

A page must load even if the topic and its records are large. A search therefore ends when it has a page of
records, reaches the end of the partitions, or exhausts its budget of time or bytes. The result says which,
and where to continue.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.client.admin.admin import Admin
from ruslo.client.librdkafka.consumer import ConsumedRecord
from ruslo.client.views.position import AtOffset, AtStart, AtTime, BeforeEnd, Position
from ruslo.client.wire.raw import RawClient
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.model.topics import TopicPartition
from ruslo.records.reader import iter_batches, read_records

PARTITIONS_MAX = 100
"""The most partitions that one page reads; beyond that the user selects one."""
_SEARCH_TIMEOUT_S = 4.0
_SEARCH_MAX_BYTES = 48 * 1024 * 1024
_FETCH_MIN_BYTES = 128 * 1024
_FETCH_MAX_BYTES = 2 * 1024 * 1024
"""The fetch size starts small and doubles: most pages need little."""
_BATCH_MAX_BYTES = 64 * 1024 * 1024
"""The largest decompressed batch."""
_CONCURRENT_PARTITIONS_MAX = 4
_WINDOW_MIN_RECORDS = 12
_WINDOW_MAX_RECORDS = 20_000


@dataclass(frozen=True, slots=True)
class Filter:
    """Bytes that the key and the value must contain."""

    key: bytes = b""
    value: bytes = b""

    def matches(self, key: bytes | None, value: bytes | None) -> bool:
        return (not self.key or (key is not None and self.key in key)) and (
            not self.value or (value is not None and self.value in value)
        )


@dataclass(slots=True)
class Budget:
    """The limits of a search over all its partitions."""

    seconds: float = _SEARCH_TIMEOUT_S
    bytes_left: int = _SEARCH_MAX_BYTES
    records_seen: int = 0
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds

    def is_exhausted(self) -> bool:
        return self.bytes_left <= 0 or time.monotonic() >= self._until


@dataclass(frozen=True, slots=True)
class Found:
    records: tuple[ConsumedRecord, ...]
    """Oldest first when read forwards, newest first when read backwards."""
    positions: Mapping[int, int]
    """Where to continue, by partition; a partition that was read to its end is left out."""
    records_seen: int
    is_incomplete: bool
    """Whether the budget of time or bytes ended the search."""
    unreadable: tuple[str, ...] = ()
    """Errors of batches that could not be read."""


@dataclass(slots=True)
class _Part:
    """The result of one partition."""

    records: list[ConsumedRecord]
    position: int
    """The offset up to which (or down to which) all records were read."""
    at_end: bool
    problem: str | None = None


_Search: TypeAlias = Callable[[int], Awaitable[_Part]]


class RecordReader:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._raw = RawClient(admin.cluster)

    async def ranges(self, topic: str, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        found = await self._admin.offsets.ranges([TopicPartition(topic, number) for number in partitions])
        return {tp.partition: offsets for tp, offsets in found.items()}

    async def offsets_of(
        self, topic: str, position: Position, ranges: Mapping[int, tuple[int, int]]
    ) -> dict[int, int]:
        """The offset of a position in each partition, limited to its valid offsets."""
        match position:
            case AtStart():
                return {number: first for number, (first, _) in ranges.items()}
            case BeforeEnd(records):
                return {number: max(first, end - records) for number, (first, end) in ranges.items()}
            case AtOffset(offset):
                return {number: min(max(offset, first), end) for number, (first, end) in ranges.items()}
            case AtTime(timestamp_ms):
                wanted = {TopicPartition(topic, number): timestamp_ms for number in ranges}
                found = await self._admin.offsets.find(wanted)
                return {
                    tp.partition: each.offset if each.offset >= 0 else ranges[tp.partition][1]
                    for tp, each in found.items()
                }

    async def forwards(
        self,
        topic: str,
        positions: Mapping[int, int],
        ranges: Mapping[int, tuple[int, int]],
        wanted: Filter,
        limit: int,
        budget: Budget | None = None,
    ) -> Found:
        spent = budget or Budget()

        async def search(number: int) -> _Part:
            first, end = ranges[number]
            start = max(positions[number], first)
            return await self._read_forwards(TopicPartition(topic, number), start, end, wanted, limit, spent)

        return await self._collect(positions, search, limit, spent, newest_first=False)

    async def backwards(
        self,
        topic: str,
        positions: Mapping[int, int],
        ranges: Mapping[int, tuple[int, int]],
        wanted: Filter,
        limit: int,
    ) -> Found:
        """Records before the positions, newest first."""
        spent = Budget()

        async def search(number: int) -> _Part:
            first, end = ranges[number]
            before = min(positions[number], end)
            return await self._read_backwards(
                TopicPartition(topic, number), first, before, wanted, limit, spent
            )

        return await self._collect(positions, search, limit, spent, newest_first=True)

    async def one(self, topic: str, partition: int, offset: int) -> ConsumedRecord | None:
        """The record at an offset; None if it was deleted or compacted, or is a transaction marker."""
        ranges = await self.ranges(topic, [partition])
        first, end = ranges[partition]
        if not first <= offset < end:
            return None
        part = await self._read_forwards(
            TopicPartition(topic, partition), offset, min(offset + 1, end), Filter(), 1, Budget()
        )
        if part.problem is not None and not part.records:
            raise ProtocolError(part.problem)
        return part.records[0] if part.records else None

    @staticmethod
    async def _collect(
        positions: Mapping[int, int], search: _Search, limit: int, spent: Budget, *, newest_first: bool
    ) -> Found:
        semaphore = asyncio.Semaphore(_CONCURRENT_PARTITIONS_MAX)

        async def limited(number: int) -> _Part:
            async with semaphore:
                return await search(number)

        parts = dict(zip(positions, await asyncio.gather(*map(limited, positions)), strict=True))
        chosen, rest = _merged(parts, limit, newest_first=newest_first)
        following = {
            number: rest[number].offset + newest_first if number in rest else part.position
            for number, part in parts.items()
            if number in rest or not part.at_end
        }
        problems = tuple(part.problem for part in parts.values() if part.problem is not None)
        return Found(tuple(chosen), following, spent.records_seen, spent.is_exhausted(), problems)

    async def _read_forwards(
        self, tp: TopicPartition, position: int, end: int, wanted: Filter, limit: int, budget: Budget
    ) -> _Part:
        part = _Part([], position, at_end=position >= end)
        fetch_bytes = _FETCH_MIN_BYTES
        while not part.at_end and len(part.records) < limit and not budget.is_exhausted():
            fetched = await self._raw.fetch(
                {tp: part.position}, max_wait_ms=0, partition_max_bytes=fetch_bytes
            )
            fetch_bytes = min(fetch_bytes * 2, _FETCH_MAX_BYTES)
            data = fetched[tp].records
            budget.bytes_left -= max(len(data), 1)
            before = part.position
            for following, record in _records(tp, data, part):
                if record is None:
                    part.position = max(part.position, min(following, end))
                elif record.offset >= end:
                    part.position = end
                elif record.offset >= before:
                    budget.records_seen += 1
                    part.position = record.offset + 1
                    if wanted.matches(record.key, record.value):
                        part.records.append(record)
                if part.position >= end or len(part.records) >= limit:
                    break
            # No progress means that nothing after this position can be read.
            part.at_end = part.position >= end or part.position == before
            await asyncio.sleep(0)  # let other pages run
        return part

    async def _read_backwards(
        self, tp: TopicPartition, first: int, before: int, wanted: Filter, limit: int, budget: Budget
    ) -> _Part:
        """Read windows of offsets backwards; a window doubles after each one."""
        part = _Part([], before, at_end=before <= first)
        window = min(limit, _WINDOW_MIN_RECORDS)
        while not part.at_end and len(part.records) < limit:
            exhausted = budget.is_exhausted()
            if exhausted and (part.position < before or window == 1):
                break
            if exhausted:
                window = 1  # return at least one of these huge records
            start = max(first, part.position - window)
            allowance = Budget() if window == 1 else budget
            seen = await self._read_forwards(tp, start, part.position, wanted, window, allowance)
            if seen.position < part.position and not seen.at_end:
                continue  # the newer half of the window was not read
            part.problem = part.problem or seen.problem
            part.records += reversed(seen.records)
            part.position = start
            part.at_end = start <= first
            window = min(window * 2, _WINDOW_MAX_RECORDS)
        return part


def _records(
    tp: TopicPartition, data: ReadBuffer, part: _Part
) -> Iterator[tuple[int, ConsumedRecord | None]]:
    """The records; after each batch, the following offset and None. Corrupt batches are skipped."""
    view = memoryview(data)
    try:
        for position, header in iter_batches(data):
            if not header.is_control:
                try:
                    for record in read_records(view[position : position + header.size], _BATCH_MAX_BYTES):
                        yield (
                            record.offset,
                            ConsumedRecord(
                                tp.topic,
                                tp.partition,
                                record.offset,
                                record.timestamp,
                                record.key,
                                record.value,
                                record.headers,
                            ),
                        )
                except ProtocolError as error:
                    part.problem = part.problem or f"{tp}: {error}"
            yield header.last_offset + 1, None
    except ProtocolError as error:
        part.problem = part.problem or f"{tp}: {error}"


def _merged(
    parts: Mapping[int, _Part], limit: int, *, newest_first: bool
) -> tuple[list[ConsumedRecord], dict[int, ConsumedRecord]]:
    """The first ``limit`` records by timestamp, and the first record left out of each partition."""
    sign = -1 if newest_first else 1
    lists = [part.records for part in parts.values()]
    merged = heapq.merge(*lists, key=lambda record: sign * record.timestamp_ms)
    chosen = [record for record, _ in zip(merged, range(limit), strict=False)]
    counts: dict[int, int] = {}
    for record in chosen:
        counts[record.partition] = counts.get(record.partition, 0) + 1
    rest = {
        number: part.records[counts.get(number, 0)]
        for number, part in parts.items()
        if counts.get(number, 0) < len(part.records)
    }
    return chosen, rest
