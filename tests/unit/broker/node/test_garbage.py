"""Garbage collection. The collector belongs to the process, so each test restores its thresholds."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from ruslo.broker.node import garbage
from ruslo.broker.node.garbage import NEVER, YOUNG_COLLECTIONS_PER_FREEZE, YOUNG_OBJECTS, GarbageCollection


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.me = self


async def test_old_objects_are_frozen_and_young_cycles_are_collected() -> None:
    before = gc.get_threshold()
    collection = GarbageCollection()
    collection.start()
    collection.loaded()
    try:
        assert gc.get_threshold() == (YOUNG_OBJECTS, YOUNG_COLLECTIONS_PER_FREEZE, NEVER)
        frozen = gc.get_freeze_count()
        cycle = weakref.ref(Cycle())
        kept = [[number] for number in range(3 * YOUNG_OBJECTS * YOUNG_COLLECTIONS_PER_FREEZE)]
        assert cycle() is None
        await asyncio.sleep(0)
        assert gc.get_freeze_count() > frozen + len(kept) // 2
    finally:
        collection.stop()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


async def test_objects_created_during_startup_are_frozen_without_a_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collection = GarbageCollection()
    collection.start()
    try:
        collections: list[int] = []
        monkeypatch.setattr(gc, "collect", lambda: collections.append(1))
        frozen = gc.get_freeze_count()
        kept = [[number] for number in range(3 * YOUNG_OBJECTS * YOUNG_COLLECTIONS_PER_FREEZE)]
        await asyncio.sleep(0)
        assert gc.get_freeze_count() > frozen + len(kept) // 2
        assert collections == []
    finally:
        collection.stop()


@pytest.mark.parametrize("grown", [True, False])
async def test_frozen_cycle_is_found_by_the_full_collection(
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
        cycle = Cycle()
        reference = weakref.ref(cycle)
        gc.freeze()
        del cycle
        gc.collect()
        assert reference() is not None, "the cycle is frozen until the full collection"
        async with asyncio.timeout(30):
            while len(sizes) < 5:  # noqa: ASYNC110 (the collector has no event)
                await asyncio.sleep(0.01)
        assert (reference() is None) == grown
    finally:
        collection.stop()
