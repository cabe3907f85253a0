"""Finds records of a topic: from a place on or back from it, all or those that a filter lets through.

A page must come back, however large the topic and its records are. So a search ends when it has a page of
records, when the partitions are over, or when it has spent its time or its bytes; it says which, and where to
go on.
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
"""More than these are not read at once: the reader is asked to choose."""
_SEARCH_S = 4.0
_SEARCH_BYTES = 48 * 1024 * 1024
_FETCH_MIN_BYTES = 128 * 1024
_FETCH_MAX_BYTES = 2 * 1024 * 1024
"""Most pages need little; a search that goes on takes more at a time."""
_BATCH_MAX_BYTES = 64 * 1024 * 1024
"""A compressed batch is not unfolded beyond this."""
_PARTITIONS_AT_ONCE = 4
_WINDOW_MIN = 12
_WINDOW_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Filter:
    """Bytes that key and value must contain."""

    key: bytes = b""
    value: bytes = b""

    def passes(self, key: bytes | None, value: bytes | None) -> bool:
        return (not self.key or (key is not None and self.key in key)) and (
            not self.value or (value is not None and self.value in value)
        )


@dataclass(slots=True)
class Budget:
    """What a search may spend, all its partitions together."""

    seconds: float = _SEARCH_S
    bytes_left: int = _SEARCH_BYTES
    records_seen: int = 0
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds

    def is_spent(self) -> bool:
        return self.bytes_left <= 0 or time.monotonic() >= self._until


@dataclass(frozen=True, slots=True)
class Found:
    records: tuple[ConsumedRecord, ...]
    """From old to new when read forwards, from new to old when read backwards."""
    places: Mapping[int, int]
    """By partition where to go on: the next offset, or the one to stay before; none where all is seen."""
    records_seen: int
    is_cut_short: bool
    """Whether time or bytes ended it, not the records."""
    unreadable: tuple[str, ...] = ()
    """What could not be read, in words."""


@dataclass(slots=True)
class _Part:
    """What was found in one partition."""

    records: list[ConsumedRecord]
    place: int
    """Up to here (or down to here) all was seen."""
    is_over: bool
    problem: str | None = None


_Search: TypeAlias = Callable[[int], Awaitable[_Part]]


class RecordReader:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._raw = RawClient(admin.cluster)

    async def ranges(self, topic: str, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        found = await self._admin.offsets.ranges([TopicPartition(topic, number) for number in partitions])
        return {place.partition: span for place, span in found.items()}

    async def places_of(
        self, topic: str, position: Position, ranges: Mapping[int, tuple[int, int]]
    ) -> dict[int, int]:
        """By partition the offset that a position means there, held within what the partition has."""
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
                    place.partition: each.offset if each.offset >= 0 else ranges[place.partition][1]
                    for place, each in found.items()
                }

    async def forwards(
        self,
        topic: str,
        places: Mapping[int, int],
        ranges: Mapping[int, tuple[int, int]],
        wanted: Filter,
        limit: int,
        budget: Budget | None = None,
    ) -> Found:
        spent = budget or Budget()

        async def search(number: int) -> _Part:
            first, end = ranges[number]
            place = TopicPartition(topic, number)
            return await self._ahead(place, max(places[number], first), end, wanted, limit, spent)

        parts = await self._each(places, search)
        taken, rest = _merged(parts, limit, newest_first=False)
        following = {
            number: rest[number].offset if number in rest else part.place
            for number, part in parts.items()
            if number in rest or not part.is_over
        }
        return _found(taken, following, parts, spent)

    async def backwards(
        self,
        topic: str,
        places: Mapping[int, int],
        ranges: Mapping[int, tuple[int, int]],
        wanted: Filter,
        limit: int,
    ) -> Found:
        """Records before the places, the youngest first."""
        spent = Budget()

        async def search(number: int) -> _Part:
            first, end = ranges[number]
            place = TopicPartition(topic, number)
            return await self._behind(place, first, min(places[number], end), wanted, limit, spent)

        parts = await self._each(places, search)
        taken, rest = _merged(parts, limit, newest_first=True)
        following = {
            number: rest[number].offset + 1 if number in rest else part.place
            for number, part in parts.items()
            if number in rest or not part.is_over
        }
        return _found(taken, following, parts, spent)

    async def one(self, topic: str, partition: int, offset: int) -> ConsumedRecord | None:
        """The record at an offset; None where retention, compaction or a marker has its place."""
        ranges = await self.ranges(topic, [partition])
        first, end = ranges[partition]
        if not first <= offset < end:
            return None
        part = await self._ahead(
            TopicPartition(topic, partition), offset, min(offset + 1, end), Filter(), 1, Budget()
        )
        if part.problem is not None and not part.records:
            raise ProtocolError(part.problem)
        return part.records[0] if part.records else None

    @staticmethod
    async def _each(places: Mapping[int, int], search: _Search) -> dict[int, _Part]:
        turns = asyncio.Semaphore(_PARTITIONS_AT_ONCE)

        async def in_turn(number: int) -> _Part:
            async with turns:
                return await search(number)

        return dict(zip(places, await asyncio.gather(*map(in_turn, places)), strict=True))

    async def _ahead(
        self, place: TopicPartition, position: int, end: int, wanted: Filter, limit: int, budget: Budget
    ) -> _Part:
        part = _Part([], position, is_over=position >= end)
        fetch_bytes = _FETCH_MIN_BYTES
        while not part.is_over and len(part.records) < limit and not budget.is_spent():
            fetched = await self._raw.fetch(
                {place: part.place}, max_wait_ms=0, partition_max_bytes=fetch_bytes
            )
            fetch_bytes = min(fetch_bytes * 2, _FETCH_MAX_BYTES)
            data = fetched[place].records
            budget.bytes_left -= max(len(data), 1)
            before = part.place
            for following, record in _records(place, data, part):
                if record is None:
                    part.place = max(part.place, min(following, end))
                elif record.offset >= end:
                    part.place = end
                elif record.offset >= before:
                    budget.records_seen += 1
                    part.place = record.offset + 1
                    if wanted.passes(record.key, record.value):
                        part.records.append(record)
                if part.place >= end or len(part.records) >= limit:
                    break
            # Nothing readable behind it: not even a batch of markers moved the place.
            part.is_over = part.place >= end or part.place == before
            await asyncio.sleep(0)  # others want their pages too
        return part

    async def _behind(
        self, place: TopicPartition, first: int, before: int, wanted: Filter, limit: int, budget: Budget
    ) -> _Part:
        """One has to guess where to begin: windows that grow when they hold too little."""
        part = _Part([], before, is_over=before <= first)
        window = min(limit, _WINDOW_MIN)
        while not part.is_over and len(part.records) < limit:
            spent = budget.is_spent()
            if spent and (part.place < before or window == 1):
                break
            if spent:
                window = 1  # huge records: one of them at least
            start = max(first, part.place - window)
            allowance = Budget() if window == 1 else budget
            seen = await self._ahead(place, start, part.place, wanted, window, allowance)
            if seen.place < part.place and not seen.is_over:
                continue  # half a window says nothing about its younger half
            part.problem = part.problem or seen.problem
            part.records += reversed(seen.records)
            part.place = start
            part.is_over = start <= first
            window = min(window * 2, _WINDOW_MAX)
        return part


def _records(
    place: TopicPartition, data: ReadBuffer, part: _Part
) -> Iterator[tuple[int, ConsumedRecord | None]]:
    """Each record; and after each batch what comes behind it, with None. Damaged batches are passed over."""
    view = memoryview(data)
    try:
        for position, header in iter_batches(data):
            if not header.is_control:
                try:
                    for record in read_records(view[position : position + header.size], _BATCH_MAX_BYTES):
                        yield (
                            record.offset,
                            ConsumedRecord(
                                place.topic,
                                place.partition,
                                record.offset,
                                record.timestamp,
                                record.key,
                                record.value,
                                record.headers,
                            ),
                        )
                except ProtocolError as error:
                    part.problem = part.problem or f"{place}: {error}"
            yield header.last_offset + 1, None
    except ProtocolError as error:
        part.problem = part.problem or f"{place}: {error}"


def _merged(
    parts: Mapping[int, _Part], limit: int, *, newest_first: bool
) -> tuple[list[ConsumedRecord], dict[int, ConsumedRecord]]:
    """The first by time, each partition in its own order; and by partition the first that is left out."""
    sign = -1 if newest_first else 1
    lists = [part.records for part in parts.values()]
    merged = heapq.merge(*lists, key=lambda record: sign * record.timestamp_ms)
    taken = [record for record, _ in zip(merged, range(limit), strict=False)]
    counts: dict[int, int] = {}
    for record in taken:
        counts[record.partition] = counts.get(record.partition, 0) + 1
    rest = {
        number: part.records[counts.get(number, 0)]
        for number, part in parts.items()
        if counts.get(number, 0) < len(part.records)
    }
    return taken, rest


def _found(
    taken: Sequence[ConsumedRecord], places: Mapping[int, int], parts: Mapping[int, _Part], spent: Budget
) -> Found:
    problems = tuple(part.problem for part in parts.values() if part.problem is not None)
    return Found(tuple(taken), places, spent.records_seen, spent.is_spent(), problems)
