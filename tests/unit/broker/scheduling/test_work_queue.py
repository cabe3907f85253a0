from __future__ import annotations

import asyncio

import pytest

from ruslo.broker.scheduling.scheduler import Priority, Steps
from ruslo.broker.scheduling.work_queue import WorkQueue
from tests.support.brokers.stepping import SteppingClock, stepping_scheduler


def _queue(steps_per_slice: int = 4) -> WorkQueue:
    return WorkQueue(stepping_scheduler(steps_per_slice), priority=Priority.CLUSTER, name="a change")


def _steps(done: list[str], name: str, count: int) -> Steps[None]:
    for number in range(count):
        done.append(f"{name}{number}")
        yield


async def test_work_runs_in_order() -> None:
    queue, done = _queue(), list[str]()
    queue.add(_steps(done, "a", 6))
    queue.add(_steps(done, "b", 3))
    assert len(done) < 6, "the slice ended first"
    await queue.drained()
    assert done == ["a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1", "b2"]


async def test_short_work_runs_within_the_call() -> None:
    queue, done = _queue(), list[str]()
    queue.add(_steps(done, "a", 2))
    assert done == ["a0", "a1"]
    await queue.drained()


async def test_work_added_by_a_step_comes_after_it() -> None:
    queue, done = _queue(100), list[str]()

    def add() -> Steps[None]:
        queue.add(_steps(done, "b", 1))
        yield
        done.append("a")

    queue.add(add())
    assert done == ["a", "b0"]


async def test_work_that_fails_does_not_stop_the_next(caplog: pytest.LogCaptureFixture) -> None:
    queue, done = _queue(100), list[str]()

    def fail() -> Steps[None]:
        yield
        raise ValueError("no")

    queue.add(fail())
    queue.add(_steps(done, "b", 2))
    await queue.drained()
    assert done == ["b0", "b1"]
    assert "a change failed" in caplog.text


async def test_cleared_work_does_not_run() -> None:
    queue, done = _queue(), list[str]()
    queue.add(_steps(done, "a", 9))
    queue.add(_steps(done, "b", 9))
    before = len(done)
    queue.clear()
    await asyncio.sleep(0)
    await queue.drained()
    assert len(done) == before
    queue.add(_steps(done, "c", 1))
    await queue.drained()
    assert done[before:] == ["c0"]


def test_stepping_clock_advances_at_every_reading() -> None:
    clock = SteppingClock(4)
    assert clock.monotonic_ns() < clock.monotonic_ns()
