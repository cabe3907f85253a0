"""A machine is woken at its deadline; after a standstill others are heard first."""

from __future__ import annotations

import asyncio

from ruslo.broker.drivers.deadline_timer import DeadlineTimer

NEVER_MS = 1_000_000


class ByHand:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.at_ms = 1000

    def monotonic_ms(self) -> int:
        return self.at_ms

    def now_ms(self) -> int:
        return self.at_ms


class Bench:
    def __init__(self, deadline_ms: int) -> None:
        self.clock = ByHand()
        self.deadline_ms = deadline_ms
        self.fired_ms: list[int] = []
        self.timer = DeadlineTimer(self.clock, lambda: self.deadline_ms, self._fire)
        self.timer.arm()

    def _fire(self) -> None:
        self.fired_ms.append(self.clock.at_ms)
        self.deadline_ms = NEVER_MS


async def turns(at_least_s: float = 0.0) -> None:
    await asyncio.sleep(at_least_s + 0.02)


def test_a_deadline_that_is_over_is_met_at_once() -> None:
    async def story() -> None:
        bench = Bench(deadline_ms=900)
        await turns()
        assert bench.fired_ms == [1000]
        bench.timer.stop()

    asyncio.run(story())


def test_after_a_standstill_others_are_heard_first() -> None:
    async def story() -> None:
        bench = Bench(deadline_ms=1010)
        bench.clock.at_ms = 15_000
        await turns()
        assert bench.fired_ms == []
        bench.deadline_ms = 24_000  # A heartbeat lay in the socket.
        await turns(0.1)
        assert bench.fired_ms == []
        bench.timer.stop()

    asyncio.run(story())


def test_who_stays_silent_after_a_standstill_has_run_out_of_time() -> None:
    async def story() -> None:
        bench = Bench(deadline_ms=1010)
        bench.clock.at_ms = 15_000
        await turns(0.1)
        while not bench.fired_ms:
            await turns()
        assert bench.fired_ms == [15_000]
        bench.timer.stop()

    asyncio.run(story())
