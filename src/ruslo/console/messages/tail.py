"""Follows a topic: new records as they arrive, up to a readable rate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.client.librdkafka.consumer import ConsumedRecord
from ruslo.console.messages.reading import Budget, Filter, RecordReader
from ruslo.model.topics import TopicPartition

_POLL_RECORDS_MAX = 30
_POLL_TIMEOUT_S = 1.0
_POLL_INTERVAL_S = 0.4


class Arrived(NamedTuple):
    records: tuple[ConsumedRecord, ...]
    skipped: int
    """The number of offsets that were skipped because too many records arrived."""


async def follow(
    admin: Admin, topic: str, partitions: Sequence[int], wanted: Filter
) -> AsyncIterator[Arrived]:
    """Yield new records forever; empty results too, as a sign of life."""
    reader = RecordReader(admin)
    numbers = list(partitions)
    positions = await _ends(admin, topic, numbers)
    while True:
        await asyncio.sleep(_POLL_INTERVAL_S)
        ends = await _ends(admin, topic, numbers)
        ranges = {number: (min(positions[number], ends[number]), ends[number]) for number in numbers}
        changed = {number: positions[number] for number in numbers if positions[number] < ends[number]}
        if not changed:
            yield Arrived((), 0)
            continue
        found = await reader.forwards(
            topic, changed, ranges, wanted, _POLL_RECORDS_MAX, Budget(_POLL_TIMEOUT_S)
        )
        skipped = sum(max(0, ends[number] - offset) for number, offset in found.positions.items())
        positions = ends
        yield Arrived(found.records, skipped)


async def _ends(admin: Admin, topic: str, numbers: Sequence[int]) -> dict[int, int]:
    found = await admin.offsets.find({TopicPartition(topic, number): Spec.LATEST for number in numbers})
    return {tp.partition: each.offset for tp, each in found.items()}
