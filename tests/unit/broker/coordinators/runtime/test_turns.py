from __future__ import annotations

import asyncio

import pytest

from ruslo.broker.coordinators.runtime import turns as turns_module
from ruslo.broker.coordinators.runtime.turns import Turns


async def test_chores_run_in_order_and_leave_the_loop_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    # No time at all for a turn: then it is one chore.
    monkeypatch.setattr(turns_module, "SLICE_S", 0.0)
    turns, done, seen = Turns(), list[int](), [0]
    for number in range(5):
        turns.take(lambda number=number: done.append(number))  # type: ignore[misc]
    while len(done) < 5:
        await asyncio.sleep(0)
        assert len(done) - seen[-1] <= 1
        seen.append(len(done))
    assert done == [0, 1, 2, 3, 4]
    turns.take(lambda: done.append(99))
    await asyncio.sleep(0)
    assert done[-1] == 99
