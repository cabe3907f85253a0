"""Processes with their own clocks that are killed and paused."""

from __future__ import annotations

import asyncio

from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.network import SimNetwork
from ruslo.testing.simulation.nodes.process_loop import ProcessClock, ProcessLoop


class Bench:
    def __init__(self, *, rate: float = 1.0) -> None:
        self.clock = SimClock(1)
        self.steps = 0
        local = ProcessClock(self.clock, rate=rate)
        self.loop = ProcessLoop(SimNetwork(self.clock), "here", local, self._stepped)
        self.ticks: list[int] = []

    def _stepped(self) -> None:
        self.steps += 1

    async def tick(self, period_s: float) -> None:
        while True:
            await asyncio.sleep(period_s)
            self.ticks.append(self.clock.monotonic_ms())

    def start(self, period_s: float = 0.1) -> None:
        self.loop.call_soon(lambda: self.loop.create_task(self.tick(period_s)))


def test_tasks_run_on_virtual_time() -> None:
    bench = Bench()
    bench.start()
    bench.clock.run_for(350)
    assert bench.ticks == [100, 200, 300]
    assert bench.steps > 0


def test_fast_clock_is_early() -> None:
    bench = Bench(rate=2.0)
    bench.start()
    bench.clock.run_for(160)
    assert bench.ticks == [50, 100, 150]


def test_changed_rate_does_not_make_the_time_jump() -> None:
    clock = SimClock(1)
    local = ProcessClock(clock)
    clock.run_for(1_000)
    local.change(rate=0.5, ahead_ms=7)
    assert local.monotonic_ms() == 1_000
    assert local.now_ms() == clock.now_ms() + 7
    clock.run_for(100)
    assert local.monotonic_ms() == 1_050
    assert local.due_ms(1_060) == 1_120


def test_killed_process_does_nothing() -> None:
    bench = Bench()
    bench.start()
    bench.clock.run_for(150)
    bench.loop.kill()
    bench.clock.run_for(500)
    assert bench.ticks == [100]


def test_callbacks_that_are_ready_when_a_process_ends_are_dropped() -> None:
    bench = Bench()
    bench.loop.call_soon(bench.loop.kill)
    bench.loop.call_soon(bench.ticks.append, 1)
    bench.clock.run_for(10)
    assert (bench.ticks, bench.steps) == ([], 0)


def test_paused_process_continues_later() -> None:
    bench = Bench()
    bench.start()
    bench.clock.run_for(150)
    bench.loop.pause()
    bench.clock.run_for(400)
    assert bench.ticks == [100]
    bench.loop.resume()
    bench.clock.run_for(0)
    assert bench.ticks == [100, 550]


def test_executor_work_takes_time_and_is_sequential() -> None:
    bench = Bench()
    bench.loop.disk_ms = lambda: 30
    ended: list[tuple[str, int]] = []

    async def work(name: str) -> None:
        result = await asyncio.get_running_loop().run_in_executor(thread, lambda: name)  # type: ignore[arg-type]
        ended.append((result, bench.clock.monotonic_ms()))

    thread = object()
    for name in ("first", "second"):
        bench.loop.create_task(work(name))
    bench.clock.run_for(100)
    assert ended == [("first", 30), ("second", 60)]


def test_unhandled_errors_are_collected() -> None:
    bench = Bench()

    async def fail() -> None:
        raise ValueError("unforeseen")

    bench.loop.create_task(fail())
    bench.clock.run_for(1)
    assert [str(error) for error in bench.loop.unhandled()] == ["unforeseen"]
