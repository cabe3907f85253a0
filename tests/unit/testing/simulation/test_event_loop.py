from __future__ import annotations

import asyncio

import pytest

from ruslo.testing.simulation import SimClock
from ruslo.testing.simulation.event_loop import SimEventLoop


def test_calls_run_in_order_and_in_virtual_time() -> None:
    clock = SimClock()
    loop = SimEventLoop(clock)
    happened: list[tuple[str, float]] = []

    def note(label: str) -> None:
        happened.append((label, asyncio.get_running_loop().time()))

    with loop.running():
        asyncio.get_running_loop().call_later(3600, note, "much later")
        asyncio.get_running_loop().call_later(0.25, note, "later").cancel()
        asyncio.get_running_loop().call_later(0.5, note, "half a second")
        asyncio.get_running_loop().call_soon(note, "soon")
        clock.run_for(4_000_000)
    assert happened == [("soon", 0.0), ("half a second", 0.5), ("much later", 3600.0)]


def test_future_callbacks_run_in_the_next_iteration() -> None:
    clock = SimClock()
    loop = SimEventLoop(clock)
    received: list[int] = []
    with loop.running():
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: received.append(done.result()))
        future.set_result(7)
        assert received == []
        clock.run_for(0)
    assert received == [7]


def test_callback_errors_are_reported() -> None:
    clock = SimClock()
    loop = SimEventLoop(clock)

    def fail() -> None:
        raise LookupError("in a callback")

    def run() -> None:
        with loop.running():
            asyncio.get_running_loop().call_soon(fail)
            clock.run_for(1)

    with pytest.raises(LookupError, match="in a callback"):
        run()


def test_loop_runs_only_within_its_context() -> None:
    with SimEventLoop(SimClock()).running():
        pass
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
