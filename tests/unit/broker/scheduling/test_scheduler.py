"""The scheduler on a clock that only work moves: which steps happen in which iteration of the event loop."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ruslo.broker.scheduling.scheduler import SLICE_NS, Priority, Scheduler, Steps, consume, for_each
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.process_loop import ProcessClock
from ruslo.testing.simulation.slice_clock import SliceClock


class WorkClock(SimClock):
    """Only steps take time."""

    ns = 0

    def monotonic_ns(self) -> int:
        return self.ns


class Workshop:
    """Work that notes each of its steps, and takes the same time for each."""

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

    def taken(self) -> list[str]:
        """The steps since the last call."""
        taken, self.done = self.done, []
        return taken


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


async def test_short_work_is_done_within_the_call(shop: Workshop) -> None:
    work = shop.scheduler.run(shop.steps("a", 3, "result"), priority=Priority.REQUEST, name="a")
    assert shop.taken() == ["a0", "a1", "a2"]
    assert work.done()
    assert await work == "result"


async def test_work_without_a_step_returns_its_result(shop: Workshop) -> None:
    work = shop.scheduler.run(shop.steps("a", 0, "empty"), priority=Priority.REQUEST, name="a")
    assert work.result() == "empty"


async def test_long_work_takes_one_slice_in_each_iteration(shop: Workshop) -> None:
    work = shop.scheduler.run(shop.steps("a", 10, "result"), priority=Priority.REQUEST, name="a")
    slices = [shop.taken()]
    while not work.done():
        await asyncio.sleep(0)
        slices.append(shop.taken())
    assert [len(each) for each in slices] == [4, 4, 2]
    assert work.result() == "result"


@pytest.mark.parametrize(("steps_per_slice", "expected"), [(1, 1), (50, 50)])
async def test_a_slice_is_measured_in_time_not_in_steps(steps_per_slice: int, expected: int) -> None:
    shop = Workshop(steps_per_slice)
    work = shop.scheduler.run(shop.steps("a", 120), priority=Priority.REQUEST, name="a")
    most = len(shop.taken())
    while not work.done():
        await asyncio.sleep(0)
        most = max(most, len(shop.taken()))
    assert most == expected


async def test_a_step_longer_than_a_slice_ends_it(shop: Workshop) -> None:
    shop.step_ns = SLICE_NS * 20
    work = shop.scheduler.run(shop.steps("a", 2), priority=Priority.REQUEST, name="a")
    assert shop.taken() == ["a0"]
    await asyncio.sleep(0)
    assert shop.taken() == ["a1"]
    await work


async def test_works_started_in_one_iteration_share_its_slice(shop: Workshop) -> None:
    works = [shop.scheduler.run(shop.steps(name, 3), priority=Priority.REQUEST, name=name) for name in "abc"]
    assert shop.taken() == ["a0", "a1", "a2", "b0"]
    await asyncio.sleep(0)
    assert len(shop.taken()) == 4
    await asyncio.gather(*works)


async def test_a_later_iteration_has_a_slice_of_its_own(shop: Workshop) -> None:
    for _ in range(3):
        work = shop.scheduler.run(shop.steps("a", 4), priority=Priority.REQUEST, name="a")
        assert len(shop.taken()) == 4
        await asyncio.sleep(0)
        assert work.done()


async def test_time_spent_outside_of_work_counts_once_the_slice_is_open(shop: Workshop) -> None:
    await shop.scheduler.run(shop.steps("a", 1), priority=Priority.REQUEST, name="a")
    shop.clock.ns += SLICE_NS
    work = shop.scheduler.run(shop.steps("b", 1), priority=Priority.REQUEST, name="b")
    assert shop.taken() == ["a0"]
    await work
    assert shop.taken() == ["b0"]


async def test_works_of_the_same_priority_alternate(shop: Workshop) -> None:
    first = shop.scheduler.run(shop.steps("a", 12), priority=Priority.REQUEST, name="a")
    second = shop.scheduler.run(shop.steps("b", 8), priority=Priority.REQUEST, name="b")
    order = []
    while not (first.done() and second.done()):
        order.append({each[0] for each in shop.taken()})
        await asyncio.sleep(0)
    assert order[:4] == [{"a"}, {"a"}, {"b"}, {"a"}]


async def test_work_of_a_higher_priority_goes_first(shop: Workshop) -> None:
    low = shop.scheduler.run(shop.steps("low", 8), priority=Priority.BACKGROUND, name="low")
    shop.taken()
    high = shop.scheduler.run(shop.steps("high", 6), priority=Priority.CLUSTER, name="high")
    await high
    assert shop.taken()[:8] == [*(f"high{number}" for number in range(6)), "low4", "low5"]
    await low


async def test_new_work_does_not_overtake_waiting_work_of_its_priority(shop: Workshop) -> None:
    first = shop.scheduler.run(shop.steps("a", 6), priority=Priority.REQUEST, name="a")
    shop.scheduler.run(shop.steps("b", 1), priority=Priority.REQUEST, name="b")
    shop.taken()
    await first
    assert shop.taken()[:3] == ["a4", "a5", "b0"]


async def test_work_may_start_other_work_within_a_step(shop: Workshop) -> None:
    def outer() -> Steps[None]:
        shop.scheduler.run(shop.steps("inner", 2), priority=Priority.REQUEST, name="inner")
        yield
        shop.done.append("outer")

    work = shop.scheduler.run(outer(), priority=Priority.REQUEST, name="outer")
    assert shop.taken() == ["inner0", "inner1", "outer"]
    await work


async def test_an_error_surfaces_to_the_caller(shop: Workshop) -> None:
    def fail() -> Steps[None]:
        yield from shop.steps("a", 5)
        raise ValueError("no")

    work = shop.scheduler.run(fail(), priority=Priority.REQUEST, name="a")
    assert not work.done()
    with pytest.raises(ValueError, match="no"):
        await work


async def test_an_error_no_caller_retrieves_is_reported(shop: Workshop) -> None:
    def fail() -> Steps[None]:
        yield
        raise ValueError("no")

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about["exception"]))
    shop.scheduler.run(fail(), priority=Priority.REQUEST, name="a")
    assert [str(each) for each in reported] == ["no"]


async def test_an_error_does_not_stop_other_work(shop: Workshop) -> None:
    def fail() -> Steps[None]:
        yield from shop.steps("a", 5)
        raise ValueError("no")

    broken = shop.scheduler.run(fail(), priority=Priority.REQUEST, name="a")
    sound = shop.scheduler.run(shop.steps("b", 5, "done"), priority=Priority.REQUEST, name="b")
    assert await sound == "done"
    assert isinstance(broken.exception(), ValueError)


async def test_cancelled_work_takes_no_further_step_and_cleans_up(shop: Workshop) -> None:
    cleaned: list[bool] = []

    def clean_up() -> Steps[None]:
        try:
            yield from shop.steps("a", 10)
        finally:
            cleaned.append(True)

    work = shop.scheduler.run(clean_up(), priority=Priority.REQUEST, name="a")
    shop.taken()
    assert work.cancel()
    assert cleaned == [True]
    for _ in range(3):
        await asyncio.sleep(0)
    assert shop.taken() == []
    assert work.cancelled()
    assert not work.cancel()


async def test_a_step_may_cancel_its_own_work(shop: Workshop) -> None:
    cleaned: list[bool] = []

    def cancel_itself() -> Steps[None]:
        try:
            yield from shop.steps("a", 5)
            work.cancel()
            yield
        finally:
            cleaned.append(True)

    work = shop.scheduler.run(cancel_itself(), priority=Priority.REQUEST, name="a")
    with pytest.raises(asyncio.CancelledError):
        await work
    assert cleaned == [True]


async def test_a_cancelled_caller_cancels_the_work_it_awaits(shop: Workshop) -> None:
    async def call() -> None:
        await shop.scheduler.run(shop.steps("a", 100), priority=Priority.REQUEST, name="a")

    caller = asyncio.create_task(call())
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    shop.taken()
    for _ in range(3):
        await asyncio.sleep(0)
    assert shop.taken() == []


async def test_an_idle_scheduler_leaves_the_event_loop_alone(shop: Workshop) -> None:
    await shop.scheduler.run(shop.steps("a", 9), priority=Priority.REQUEST, name="a")
    for _ in range(3):
        await asyncio.sleep(0)
    assert shop.scheduler._slice_ends_ns is None


async def test_each_item_is_a_step(shop: Workshop) -> None:
    def act(item: int) -> None:
        shop.clock.ns += shop.step_ns
        shop.done.append(str(item))

    work = shop.scheduler.run(for_each(range(6), act), priority=Priority.REQUEST, name="items")
    assert shop.taken() == ["0", "1", "2", "3"]
    await work
    assert shop.taken() == ["4", "5"]


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
