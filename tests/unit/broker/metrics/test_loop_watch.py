"""The loop watch measures stalls of the event loop and its idle share."""

from __future__ import annotations

import asyncio
import time

from ruslo.broker.metrics.loop_watch import LoopWatch
from ruslo.model.clock import SystemClock
from tests.support.brokers.live_node import until


async def test_stall_is_in_the_histogram_and_the_maximum() -> None:
    watch = LoopWatch(SystemClock())
    watch.start()
    await until(lambda: watch.stalls.count > 0)
    time.sleep(0.2)  # noqa: ASYNC251 (the stall that is to be seen)
    seen = watch.stalls.count
    await until(lambda: watch.stalls.count > seen)
    watch.stop()
    # The timer was due at most 50 ms after the stall began.
    assert watch.longest_stall_ns >= 140_000_000
    assert sum(watch.stalls.buckets[27:]) >= 1
    stopped_at = watch.stalls.count
    await asyncio.sleep(0.12)
    assert watch.stalls.count == stopped_at


async def test_idle_share_decreases_with_work() -> None:
    watch = LoopWatch(SystemClock())
    watch.start()
    await asyncio.sleep(0.3)
    idle = watch.idle_share
    busy_before_ns = watch.busy_ns
    while watch.busy_ns - busy_before_ns < 300_000_000:
        pass
    watch.stop()
    assert 0.0 <= watch.idle_share < idle <= 1.0
