"""The collector belongs to the whole process, so each test leaves it as it was."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from ruslo.broker.node import garbage
from ruslo.broker.node.garbage import NEVER, YOUNG_COLLECTIONS_PER_FREEZE, YOUNG_OBJECTS, GarbageCollection


class Knot:
    """A cycle with itself."""

    def __init__(self) -> None:
        self.me = self


async def test_what_lives_long_is_put_away_and_young_cycles_are_found() -> None:
    before = gc.get_threshold()
    collection = GarbageCollection()
    collection.start()
    collection.loaded()
    try:
        assert gc.get_threshold() == (YOUNG_OBJECTS, YOUNG_COLLECTIONS_PER_FREEZE, NEVER)
        put_away = gc.get_freeze_count()
        knot = weakref.ref(Knot())
        kept = [[number] for number in range(3 * YOUNG_OBJECTS * YOUNG_COLLECTIONS_PER_FREEZE)]
        assert knot() is None
        await asyncio.sleep(0)
        assert gc.get_freeze_count() > put_away + len(kept) // 2
    finally:
        collection.stop()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


async def test_what_is_made_during_the_start_is_put_away_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    collection = GarbageCollection()
    collection.start()
    try:
        looks: list[int] = []
        monkeypatch.setattr(gc, "collect", lambda: looks.append(1))
        put_away = gc.get_freeze_count()
        kept = [[number] for number in range(3 * YOUNG_OBJECTS * YOUNG_COLLECTIONS_PER_FREEZE)]
        await asyncio.sleep(0)
        assert gc.get_freeze_count() > put_away + len(kept) // 2
        assert looks == []
    finally:
        collection.stop()


@pytest.mark.parametrize("grown", [True, False])
async def test_a_cycle_that_dies_old_is_found_by_the_full_collection(
    monkeypatch: pytest.MonkeyPatch, grown: bool
) -> None:
    """A process that has not grown runs no full collection."""
    sizes: list[int] = []

    def resident_bytes() -> int:
        sizes.append(1000 + grown * 500 * len(sizes))
        return sizes[-1]

    monkeypatch.setattr(garbage, "_resident_bytes", resident_bytes)
    collection = GarbageCollection(full_gc_interval_s=0.02)
    collection.start()
    collection.loaded()
    try:
        knot = Knot()
        seen = weakref.ref(knot)
        gc.freeze()
        del knot
        gc.collect()
        assert seen() is not None, "it is frozen until the full collection"
        async with asyncio.timeout(30):
            while len(sizes) < 5:  # noqa: ASYNC110 (the collector has no event)
                await asyncio.sleep(0.01)
        assert (seen() is None) == grown
    finally:
        collection.stop()
