"""The heap of deadlines."""

from __future__ import annotations

from ruslo.machines.txns.timers import TimerKey, TimerKind, Timers

A = TimerKey(TimerKind.ABORT, "a")
B = TimerKey(TimerKind.ABORT, "b")


def test_fires_in_order_and_once() -> None:
    timers = Timers()
    timers.set(A, 20)
    timers.set(B, 10)
    assert timers.deadline_ms() == 10
    assert timers.pop_due(9) is None
    assert timers.pop_due(30) == B
    assert timers.pop_due(30) == A
    assert timers.pop_due(30) is None
    assert timers.deadline_ms() is None


def test_moves_both_ways() -> None:
    timers = Timers()
    timers.set(A, 20)
    timers.set(A, 40)
    assert timers.pop_due(39) is None
    assert timers.deadline_ms() == 40
    timers.set(A, 5)
    assert timers.deadline_ms() == 5
    assert timers.pop_due(50) == A
    assert timers.pop_due(50) is None


def test_set_once_does_not_move() -> None:
    timers = Timers()
    timers.set_once(A, 20)
    timers.set_once(A, 10)
    assert timers.deadline_ms() == 20


def test_many_moves_leave_one_entry() -> None:
    timers = Timers()
    for deadline_ms in range(1_000):
        timers.set(A, deadline_ms)
    assert timers.pop_due(998) is None
    assert timers.pop_due(999) == A
    assert timers.deadline_ms() is None


def test_deadline_is_never_too_late() -> None:
    timers = Timers()
    for deadline_ms in (30, 50, 40):
        timers.set(A, deadline_ms)
        assert (timers.deadline_ms() or 0) <= deadline_ms
    assert timers.pop_due(39) is None
    assert timers.pop_due(40) == A


def test_small_moves_to_and_fro_do_not_pile_up() -> None:
    """Deadlines are worked out from two clocks whose milliseconds do not begin together."""
    timers = Timers()
    for start_ms in range(10_000):
        timers.set(A, start_ms + 60_000 - start_ms % 3)
        assert timers.pop_due(start_ms) is None
    assert len(timers._heap) <= 2


def test_clear() -> None:
    timers = Timers()
    timers.set(A, 1)
    timers.clear()
    assert timers.deadline_ms() is None
