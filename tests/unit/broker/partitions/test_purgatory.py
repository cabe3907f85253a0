"""Delayed fetches: completed by appends or by the clock, and never twice."""

from __future__ import annotations

import asyncio

from ruslo.broker.partitions.purgatory import DelayedFetch, DelayedFetches

FOREVER_MS = 2**31 - 1


def delayed_fetch(
    partitions: list[DelayedFetches],
    completed: list[str],
    *,
    missing: int = 10,
    committed: bool = False,
    wait_ms: int = FOREVER_MS,
) -> DelayedFetch:
    return DelayedFetch(partitions, missing, committed, wait_ms, lambda: completed.append("done"))


async def test_a_fetch_waits_until_all_partitions_together_have_enough_bytes() -> None:
    partitions: list[DelayedFetches] = [{}, {}]
    completed: list[str] = []
    fetch = delayed_fetch(partitions, completed)
    assert all(list(each) == [fetch] for each in partitions)
    fetch.on_append(4, 0)
    fetch.on_append(5, 0)
    await asyncio.sleep(0)
    assert completed == []
    fetch.on_append(1, 0)
    assert completed == [], "not within the append: the producer's response goes first"
    assert not any(partitions)
    await asyncio.sleep(0)
    assert completed == ["done"]
    fetch.on_append(100, 100)
    fetch.wake()
    await asyncio.sleep(0)
    assert completed == ["done"]


async def test_a_read_committed_fetch_waits_for_the_last_stable_offset() -> None:
    completed: list[str] = []
    fetch = delayed_fetch([{}], completed, committed=True)
    fetch.on_append(1000, 0)
    await asyncio.sleep(0)
    assert completed == []
    fetch.on_append(10, 10)
    await asyncio.sleep(0)
    assert completed == ["done"]


async def test_a_fetch_completes_after_its_maximum_wait() -> None:
    partitions: list[DelayedFetches] = [{}]
    completed: list[str] = []
    delayed_fetch(partitions, completed, wait_ms=1)
    await asyncio.sleep(0.05)
    assert completed == ["done"]
    assert not partitions[0]
