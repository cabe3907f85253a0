"""Follows a topic: what comes, as it comes, but not more of it than anybody can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.client.librdkafka.consumer import ConsumedRecord
from ruslo.console.messages.reading import Budget, Filter, RecordReader
from ruslo.model.topics import TopicPartition

_ROUND_RECORDS = 30
_ROUND_S = 1.0
_LOOK_EVERY_S = 0.4


class Arrived(NamedTuple):
    records: tuple[ConsumedRecord, ...]
    skipped: int
    """Offsets that were passed over because more came than can be shown."""


async def follow(
    admin: Admin, topic: str, partitions: Sequence[int], wanted: Filter
) -> AsyncIterator[Arrived]:
    """Forever, from now on. Empty rounds are given out too: a sign of life."""
    reader = RecordReader(admin)
    numbers = list(partitions)
    places = await _ends(admin, topic, numbers)
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        ends = await _ends(admin, topic, numbers)
        ranges = {number: (min(places[number], ends[number]), ends[number]) for number in numbers}
        moved = {number: places[number] for number in numbers if places[number] < ends[number]}
        if not moved:
            yield Arrived((), 0)
            continue
        found = await reader.forwards(topic, moved, ranges, wanted, _ROUND_RECORDS, Budget(_ROUND_S))
        skipped = sum(max(0, ends[number] - place) for number, place in found.places.items())
        places = ends
        yield Arrived(found.records, skipped)


async def _ends(admin: Admin, topic: str, numbers: Sequence[int]) -> dict[int, int]:
    found = await admin.offsets.find({TopicPartition(topic, number): Spec.LATEST for number in numbers})
    return {place.partition: each.offset for place, each in found.items()}
