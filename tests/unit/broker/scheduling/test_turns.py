"""How much is done between two turns of the event loop: counted, on a clock that goes by work."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from ruslo.broker.scheduling import turns
from ruslo.broker.scheduling.turns import TURN_S, in_portions, in_turns

PARTITIONS = 4_000


class WorkClock:
    """Each piece of work takes a fixed time, and nothing else does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, piece_s: float) -> None:
        self.now_s = 100.0
        self.piece_s = piece_s
        monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: self.now_s))


@pytest.mark.parametrize(("piece_s", "at_most"), [(TURN_S / 50, 51), (TURN_S / 4, 5), (TURN_S * 3, 1)])
async def test_others_get_their_turn_whatever_a_piece_costs(
    monkeypatch: pytest.MonkeyPatch, piece_s: float, at_most: int
) -> None:
    clock = WorkClock(monkeypatch, piece_s)
    done: list[int] = []
    steps = [0]

    def work(item: int) -> None:
        clock.now_s += piece_s
        done.append(item)
        steps[-1] += 1

    async def somebody_else() -> None:
        while len(done) < PARTITIONS:
            steps.append(0)
            await asyncio.sleep(0)

    await asyncio.gather(in_turns(range(PARTITIONS), work), somebody_else())
    assert done == list(range(PARTITIONS))
    assert max(steps) <= at_most
    assert sum(steps) == PARTITIONS


async def test_portions_of_a_fixed_size() -> None:
    done: list[int] = []
    working = asyncio.create_task(in_portions(range(10), done.append, 4))
    seen = []
    while not working.done():
        await asyncio.sleep(0)
        seen.append(len(done))
    assert seen[:3] == [4, 8, 10]
    assert done == list(range(10))
