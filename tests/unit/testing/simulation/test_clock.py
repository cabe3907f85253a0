from __future__ import annotations

from ruslo.model.clock import Clock
from ruslo.testing.simulation import SimClock


def test_calls_run_in_order_of_their_time() -> None:
    clock = SimClock()
    seen: list[tuple[str, int]] = []

    def note(name: str) -> None:
        seen.append((name, clock.monotonic_ms()))

    clock.call_later(30, lambda: note("late"))
    clock.call_later(10, lambda: note("first"))
    clock.call_later(10, lambda: note("second"))
    clock.run_for(20)
    assert seen == [("first", 10), ("second", 10)]
    assert clock.monotonic_ms() == 20
    clock.run_for(10)
    assert seen[-1] == ("late", 30)


def test_call_may_schedule_another_at_the_same_time() -> None:
    clock = SimClock()
    seen: list[int] = []
    clock.call_later(5, lambda: clock.call_at(0, lambda: seen.append(clock.monotonic_ms())))
    clock.run_for(5)
    assert seen == [5]


def test_cancelled_calls_do_not_run() -> None:
    clock = SimClock()
    timer = clock.call_later(5, lambda: 1 / 0)
    timer.cancel()
    assert not clock.step()


def test_wall_clock_may_jump_and_the_monotonic_clock_does_not() -> None:
    clock: Clock = (sim := SimClock(epoch_ms=1_000))
    sim.run_for(50)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_050, 50)
    sim.jump(-500)
    assert (clock.now_ms(), clock.monotonic_ms()) == (550, 50)


def test_same_seed_gives_the_same_random_numbers() -> None:
    assert [SimClock(7).random.random() for _ in range(2)] == [SimClock(7).random.random()] * 2
