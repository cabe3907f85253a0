"""Fetches that wait: woken by what they wait for, by the clock, and never twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import uvloop

from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.purgatory import DelayedFetch, DelayedFetches

FOREVER_MS = 2**31 - 1


class Place:
    """All that a waiting fetch knows of a partition."""

    def __init__(self) -> None:
        self.delayed_fetches: DelayedFetches = {}


def waiting_fetch(
    places: list[Place],
    completed: list[str],
    *,
    missing: int = 10,
    committed: bool = False,
    wait_ms: int = FOREVER_MS,
) -> DelayedFetch:
    partitions = cast(list[Partition], places)
    return DelayedFetch(
        [each.delayed_fetches for each in partitions],
        missing,
        committed,
        wait_ms,
        lambda: completed.append("done"),
    )


def on_loop(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await story()

    uvloop.run(bounded())


def test_a_fetch_waits_until_enough_bytes_came_anywhere() -> None:
    async def story() -> None:
        places, completed = [Place(), Place()], list[str]()
        fetch = waiting_fetch(places, completed)
        assert all(list(place.delayed_fetches) == [fetch] for place in places)
        fetch.on_append(4, 0)
        fetch.on_append(5, 0)
        await asyncio.sleep(0)
        assert completed == []
        fetch.on_append(1, 0)
        assert completed == [], "not within the append: the producer's answer goes first"
        assert not any(place.delayed_fetches for place in places)
        await asyncio.sleep(0)
        assert completed == ["done"]
        fetch.on_append(100, 100)
        fetch.wake()
        await asyncio.sleep(0)
        assert completed == ["done"]

    on_loop(story)


def test_a_reader_of_committed_data_waits_for_the_stable_offset() -> None:
    async def story() -> None:
        completed = list[str]()
        fetch = waiting_fetch([Place()], completed, committed=True)
        fetch.on_append(1000, 0)
        await asyncio.sleep(0)
        assert completed == []
        fetch.on_append(10, 10)
        await asyncio.sleep(0)
        assert completed == ["done"]

    on_loop(story)


def test_time_ends_a_fetch() -> None:
    async def story() -> None:
        places, completed = [Place()], list[str]()
        waiting_fetch(places, completed, wait_ms=1)
        await asyncio.sleep(0.05)
        assert completed == ["done"]
        assert not places[0].delayed_fetches

    on_loop(story)
