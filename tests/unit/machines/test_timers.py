"""Timers: a heap of deadlines."""

from __future__ import annotations

from typing import TypeAlias

from ruslo.machines.timers import Timers

Key: TypeAlias = tuple[str | None, str]

A: Key = ("a", "abort")
B: Key = ("b", "abort")


def test_timers_fire_in_order_and_once() -> None:
    timers: Timers[Key] = Timers()
    timers.set(A, 20)
    timers.set(B, 10)
    assert timers.deadline_ms() == 10
    assert timers.pop_due(9) is None
    assert timers.pop_due(30) == B
    assert timers.pop_due(30) == A
    assert timers.pop_due(30) is None
    assert timers.deadline_ms() is None


def test_timers_move_both_ways() -> None:
    timers: Timers[Key] = Timers()
    timers.set(A, 20)
    timers.set(A, 40)
    assert timers.pop_due(39) is None
    assert timers.deadline_ms() == 40
    timers.set(A, 5)
    assert timers.deadline_ms() == 5
    assert timers.pop_due(50) == A
    assert timers.pop_due(50) is None


def test_set_once_does_not_move() -> None:
    timers: Timers[Key] = Timers()
    timers.set_once(A, 20)
    timers.set_once(A, 10)
    assert timers.deadline_ms() == 20


def test_many_moves_leave_one_entry() -> None:
    timers: Timers[Key] = Timers()
    for deadline_ms in range(1_000):
        timers.set(A, deadline_ms)
    assert timers.pop_due(998) is None
    assert timers.pop_due(999) == A
    assert timers.deadline_ms() is None


def test_deadline_is_never_too_late() -> None:
    timers: Timers[Key] = Timers()
    for deadline_ms in (30, 50, 40):
        timers.set(A, deadline_ms)
        assert (timers.deadline_ms() or 0) <= deadline_ms
    assert timers.pop_due(39) is None
    assert timers.pop_due(40) == A


def test_small_moves_do_not_accumulate_entries() -> None:
    """Deadlines are computed from two clocks whose milliseconds do not begin together."""
    timers: Timers[Key] = Timers()
    for start_ms in range(10_000):
        timers.set(A, start_ms + 60_000 - start_ms % 3)
        assert timers.pop_due(start_ms) is None
    assert len(timers._heap) <= 2


def test_clear() -> None:
    timers: Timers[Key] = Timers()
    timers.set(A, 1)
    timers.clear()
    assert timers.deadline_ms() is None


def test_due_timers_come_in_the_order_of_their_deadlines() -> None:
    timers: Timers[Key] = Timers()
    timers.set(("b", "session"), 20)
    timers.set(("a", "session"), 10)
    timers.set((None, "join"), 10)
    assert timers.deadline_ms() == 10
    assert timers.pop_due(9) is None
    assert timers.pop_due(30) == ("a", "session")
    assert timers.pop_due(30) == (None, "join")
    assert timers.pop_due(30) == ("b", "session")
    assert timers.pop_due(30) is None
    assert timers.deadline_ms() is None


def test_timers_move_both_ways_and_fire_once() -> None:
    timers: Timers[Key] = Timers()
    timers.set(("a", "session"), 10)
    timers.set(("a", "session"), 30)
    assert timers.deadline_ms() == 30
    assert timers.pop_due(29) is None
    timers.set(("a", "session"), 20)
    assert timers.get(("a", "session")) == timers.deadline_ms() == 20
    assert timers.pop_due(30) == ("a", "session")
    assert timers.pop_due(100) is None


def test_cancelled_timers_may_be_set_again() -> None:
    timers: Timers[Key] = Timers()
    timers.set(("a", "session"), 10)
    timers.cancel(("a", "session"))
    timers.cancel(("never set", "session"))
    assert timers.deadline_ms() is None
    timers.set(("a", "session"), 10)
    timers.cancel(("a", "session"))
    timers.set(("a", "session"), 15)
    assert timers.pop_due(14) is None
    assert timers.pop_due(15) == ("a", "session")
    assert len(timers) == 0


def test_renewals_do_not_accumulate_entries() -> None:
    timers: Timers[Key] = Timers()
    for number in range(10_000):
        timers.set(("a", "session"), 100_000 - number)
        timers.cancel(("b", "session"))
        timers.set(("b", "session"), 200_000 + number)
    assert len(timers) == 2
    assert len(timers._heap) < 3_000
    assert timers.deadline_ms() == 90_001
