"""The collector belongs to the whole process, so each test leaves it as it was."""

from __future__ import annotations

import asyncio
import gc
import weakref

from ruslo.broker.garbage import NEVER, YOUNG, YOUNG_LOOKS, GarbageWatch


class Knot:
    """A cycle with itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_lives_long_is_put_away_and_young_cycles_are_found() -> None:
    async def story() -> None:
        before = gc.get_threshold()
        watch = GarbageWatch()
        watch.start()
        try:
            assert gc.get_threshold() == (YOUNG, YOUNG_LOOKS, NEVER)
            put_away = gc.get_freeze_count()
            knot = weakref.ref(Knot())
            kept = [[number] for number in range(3 * YOUNG * YOUNG_LOOKS)]
            assert knot() is None
            await asyncio.sleep(0)
            assert gc.get_freeze_count() > put_away + len(kept) // 2
        finally:
            watch.stop()
        assert gc.get_threshold() == before
        assert gc.get_freeze_count() == 0

    asyncio.run(story())


def test_a_cycle_that_dies_old_is_found_by_the_full_look() -> None:
    async def story() -> None:
        watch = GarbageWatch(full_look_s=0.05)
        watch.start()
        try:
            knot = Knot()
            seen = weakref.ref(knot)
            gc.freeze()
            del knot
            gc.collect()
            assert seen() is not None, "out of sight until everything is looked at"
            async with asyncio.timeout(10):
                while seen() is not None:  # noqa: ASYNC110 (the collector has no event)
                    await asyncio.sleep(0.01)
        finally:
            watch.stop()

    asyncio.run(story())
