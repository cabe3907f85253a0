"""The scheduler, with a clock that only work advances: which steps run in which event-loop iteration."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ruslo.broker.scheduling.scheduler import SLICE_NS, Priority, Scheduler, Steps, consume, for_each
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.process_loop import ProcessClock
from ruslo.testing.simulation.slice_clock import SliceClock


class WorkClock(SimClock):
    """A clock that only steps advance."""

    ns = 0

    def monotonic_ns(self) -> int:
        return self.ns


class WorkBench:
    """Work that records its steps, each of the same duration."""

    def __init__(self, steps_per_slice: int = 4) -> None:
        self.clock = WorkClock()
        self.scheduler = Scheduler(self.clock)
        self.step_ns = -(-SLICE_NS // steps_per_slice)
        self.done: list[str] = []

    def steps(self, name: str, count: int, result: str = "") -> Steps[str]:
        for number in range(count):
            self.clock.ns += self.step_ns
            self.done.append(f"{name}{number}")
            yield
        return result

    def new_steps(self) -> list[str]:
        """The steps since the last call."""
        new_steps, self.done = self.done, []
        return new_steps


@pytest.fixture
def bench() -> WorkBench:
    return WorkBench()


async def test_short_work_is_done_within_the_call(bench: WorkBench) -> None:
    work = bench.scheduler.run(bench.steps("a", 3, "result"), priority=Priority.REQUEST, name="a")
    assert bench.new_steps() == ["a0", "a1", "a2"]
    assert work.done()
    assert await work == "result"


async def test_work_without_steps_returns_its_result(bench: WorkBench) -> None:
    work = bench.scheduler.run(bench.steps("a", 0, "empty"), priority=Priority.REQUEST, name="a")
    assert work.result() == "empty"


async def test_long_work_runs_one_slice_in_each_iteration(bench: WorkBench) -> None:
    work = bench.scheduler.run(bench.steps("a", 10, "result"), priority=Priority.REQUEST, name="a")
    slices = [bench.new_steps()]
    while not work.done():
        await asyncio.sleep(0)
        slices.append(bench.new_steps())
    assert [len(each) for each in slices] == [4, 4, 2]
    assert work.result() == "result"


@pytest.mark.parametrize(("steps_per_slice", "expected"), [(1, 1), (50, 50)])
async def test_a_slice_is_measured_in_time_not_in_steps(steps_per_slice: int, expected: int) -> None:
    bench = WorkBench(steps_per_slice)
    work = bench.scheduler.run(bench.steps("a", 120), priority=Priority.REQUEST, name="a")
    most = len(bench.new_steps())
    while not work.done():
        await asyncio.sleep(0)
        most = max(most, len(bench.new_steps()))
    assert most == expected


async def test_a_step_longer_than_a_slice_ends_it(bench: WorkBench) -> None:
    bench.step_ns = SLICE_NS * 20
    work = bench.scheduler.run(bench.steps("a", 2), priority=Priority.REQUEST, name="a")
    assert bench.new_steps() == ["a0"]
    await asyncio.sleep(0)
    assert bench.new_steps() == ["a1"]
    await work


async def test_work_started_in_one_iteration_shares_its_slice(bench: WorkBench) -> None:
    tasks = [
        bench.scheduler.run(bench.steps(name, 3), priority=Priority.REQUEST, name=name) for name in "abc"
    ]
    assert bench.new_steps() == ["a0", "a1", "a2", "b0"]
    await asyncio.sleep(0)
    assert len(bench.new_steps()) == 4
    await asyncio.gather(*tasks)


async def test_later_iteration_has_its_own_slice(bench: WorkBench) -> None:
    for _ in range(3):
        work = bench.scheduler.run(bench.steps("a", 4), priority=Priority.REQUEST, name="a")
        assert len(bench.new_steps()) == 4
        await asyncio.sleep(0)
        assert work.done()


async def test_time_spent_outside_of_work_counts_once_the_slice_is_open(bench: WorkBench) -> None:
    await bench.scheduler.run(bench.steps("a", 1), priority=Priority.REQUEST, name="a")
    bench.clock.ns += SLICE_NS
    work = bench.scheduler.run(bench.steps("b", 1), priority=Priority.REQUEST, name="b")
    assert bench.new_steps() == ["a0"]
    await work
    assert bench.new_steps() == ["b0"]


async def test_work_of_the_same_priority_alternates(bench: WorkBench) -> None:
    first = bench.scheduler.run(bench.steps("a", 12), priority=Priority.REQUEST, name="a")
    second = bench.scheduler.run(bench.steps("b", 8), priority=Priority.REQUEST, name="b")
    order = []
    while not (first.done() and second.done()):
        order.append({each[0] for each in bench.new_steps()})
        await asyncio.sleep(0)
    assert order[:4] == [{"a"}, {"a"}, {"b"}, {"a"}]


async def test_work_of_a_higher_priority_goes_first(bench: WorkBench) -> None:
    low = bench.scheduler.run(bench.steps("low", 8), priority=Priority.BACKGROUND, name="low")
    bench.new_steps()
    high = bench.scheduler.run(bench.steps("high", 6), priority=Priority.CLUSTER, name="high")
    await high
    assert bench.new_steps()[:8] == [*(f"high{number}" for number in range(6)), "low4", "low5"]
    await low


async def test_new_work_does_not_overtake_waiting_work_of_its_priority(bench: WorkBench) -> None:
    first = bench.scheduler.run(bench.steps("a", 6), priority=Priority.REQUEST, name="a")
    bench.scheduler.run(bench.steps("b", 1), priority=Priority.REQUEST, name="b")
    bench.new_steps()
    await first
    assert bench.new_steps()[:3] == ["a4", "a5", "b0"]


async def test_work_may_start_other_work_within_a_step(bench: WorkBench) -> None:
    def outer() -> Steps[None]:
        bench.scheduler.run(bench.steps("inner", 2), priority=Priority.REQUEST, name="inner")
        yield
        bench.done.append("outer")

    work = bench.scheduler.run(outer(), priority=Priority.REQUEST, name="outer")
    assert bench.new_steps() == ["inner0", "inner1", "outer"]
    await work


async def test_error_is_raised_to_the_caller(bench: WorkBench) -> None:
    def fail() -> Steps[None]:
        yield from bench.steps("a", 5)
        raise ValueError("no")

    work = bench.scheduler.run(fail(), priority=Priority.REQUEST, name="a")
    assert not work.done()
    with pytest.raises(ValueError, match="no"):
        await work


async def test_error_that_no_caller_retrieves_is_reported(bench: WorkBench) -> None:
    def fail() -> Steps[None]:
        yield
        raise ValueError("no")

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about["exception"]))
    bench.scheduler.run(fail(), priority=Priority.REQUEST, name="a")
    assert [str(each) for each in reported] == ["no"]


async def test_an_error_does_not_stop_other_work(bench: WorkBench) -> None:
    def fail() -> Steps[None]:
        yield from bench.steps("a", 5)
        raise ValueError("no")

    failing = bench.scheduler.run(fail(), priority=Priority.REQUEST, name="a")
    succeeding = bench.scheduler.run(bench.steps("b", 5, "done"), priority=Priority.REQUEST, name="b")
    assert await succeeding == "done"
    assert isinstance(failing.exception(), ValueError)


async def test_cancelled_work_takes_no_further_step_and_cleans_up(bench: WorkBench) -> None:
    cleaned: list[bool] = []

    def clean_up() -> Steps[None]:
        try:
            yield from bench.steps("a", 10)
        finally:
            cleaned.append(True)

    work = bench.scheduler.run(clean_up(), priority=Priority.REQUEST, name="a")
    bench.new_steps()
    assert work.cancel()
    assert cleaned == [True]
    for _ in range(3):
        await asyncio.sleep(0)
    assert bench.new_steps() == []
    assert work.cancelled()
    assert not work.cancel()


async def test_a_step_may_cancel_its_own_work(bench: WorkBench) -> None:
    cleaned: list[bool] = []

    def cancel_itself() -> Steps[None]:
        try:
            yield from bench.steps("a", 5)
            work.cancel()
            yield
        finally:
            cleaned.append(True)

    work = bench.scheduler.run(cancel_itself(), priority=Priority.REQUEST, name="a")
    with pytest.raises(asyncio.CancelledError):
        await work
    assert cleaned == [True]


async def test_a_cancelled_caller_cancels_the_work_it_awaits(bench: WorkBench) -> None:
    async def call() -> None:
        await bench.scheduler.run(bench.steps("a", 100), priority=Priority.REQUEST, name="a")

    caller = asyncio.create_task(call())
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    bench.new_steps()
    for _ in range(3):
        await asyncio.sleep(0)
    assert bench.new_steps() == []


async def test_an_idle_scheduler_leaves_the_event_loop_alone(bench: WorkBench) -> None:
    await bench.scheduler.run(bench.steps("a", 9), priority=Priority.REQUEST, name="a")
    for _ in range(3):
        await asyncio.sleep(0)
    assert bench.scheduler._slice_ends_ns is None


async def test_each_item_is_a_step(bench: WorkBench) -> None:
    def act(item: int) -> None:
        bench.clock.ns += bench.step_ns
        bench.done.append(str(item))

    work = bench.scheduler.run(for_each(range(6), act), priority=Priority.REQUEST, name="items")
    assert bench.new_steps() == ["0", "1", "2", "3"]
    await work
    assert bench.new_steps() == ["4", "5"]


def test_consumed_items_are_dropped_one_by_one() -> None:
    items = [1, 2, 3]
    left = [(each, len(items)) for each in consume(items)]
    assert left == [(3, 2), (2, 1), (1, 0)]


async def _slices(seed: int) -> list[int]:
    scheduler = Scheduler(SliceClock(ProcessClock(SimClock()), Random(seed)))
    done: list[int] = []
    work = scheduler.run(for_each(range(100), done.append), priority=Priority.REQUEST, name="items")
    sizes = [len(done)]
    while not work.done():
        await asyncio.sleep(0)
        sizes.append(len(done) - sum(sizes))
    return sizes


async def test_the_seed_of_a_simulation_chooses_the_slices() -> None:
    assert await _slices(1) == await _slices(1)
    assert await _slices(1) != await _slices(2)
    assert len(await _slices(1)) > 3
