"""The heap of deadlines."""

from __future__ import annotations

from ruslo.machines.groups.timers import TimerKey, TimerKind, Timers

SESSION = TimerKind.SESSION


def test_due_timers_come_in_the_order_of_their_deadlines() -> None:
    timers = Timers()
    timers.set("g", "b", SESSION, 20)
    timers.set("g", "a", SESSION, 10)
    timers.set("g", None, TimerKind.JOIN, 10)
    assert timers.deadline_ms() == 10
    assert timers.pop_due(9) is None
    assert timers.pop_due(30) == TimerKey("g", "a", SESSION)
    assert timers.pop_due(30) == TimerKey("g", None, TimerKind.JOIN)
    assert timers.pop_due(30) == TimerKey("g", "b", SESSION)
    assert timers.pop_due(30) is None
    assert timers.deadline_ms() is None


def test_timers_move_both_ways_and_fire_once() -> None:
    timers = Timers()
    timers.set("g", "a", SESSION, 10)
    timers.set("g", "a", SESSION, 30)
    assert timers.deadline_ms() == 30
    assert timers.pop_due(29) is None
    timers.set("g", "a", SESSION, 20)
    assert timers.get("g", "a", SESSION) == timers.deadline_ms() == 20
    assert timers.pop_due(30) == TimerKey("g", "a", SESSION)
    assert timers.pop_due(100) is None


def test_cancelled_timers_may_be_set_again() -> None:
    timers = Timers()
    timers.set("g", "a", SESSION, 10)
    timers.cancel("g", "a", SESSION)
    timers.cancel("g", "never set", SESSION)
    assert timers.deadline_ms() is None
    timers.set("g", "a", SESSION, 10)
    timers.cancel("g", "a", SESSION)
    timers.set("g", "a", SESSION, 15)
    assert timers.pop_due(14) is None
    assert timers.pop_due(15) == TimerKey("g", "a", SESSION)
    assert len(timers) == 0


def test_renewals_do_not_pile_up() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.set("g", "a", SESSION, 100_000 - number)
        timers.cancel("g", "b", SESSION)
        timers.set("g", "b", SESSION, 200_000 + number)
    assert len(timers) == 2
    assert len(timers._heap) < 3_000
    assert timers.deadline_ms() == 90_001
