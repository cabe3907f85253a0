"""The timer wakes a machine at its deadline. After a suspension pending requests are read first."""

from __future__ import annotations

from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.network import SimNetwork
from ruslo.testing.simulation.nodes.process_loop import ProcessClock, ProcessLoop

SESSION_MS = 9_000


class Bench:
    """A machine that declares its peer dead after a session timeout without a heartbeat."""

    def __init__(self) -> None:
        self.clock = SimClock(1)
        self.loop = ProcessLoop(SimNetwork(self.clock), "here", ProcessClock(self.clock), lambda: None)
        self._ends_ms = SESSION_MS
        self.timed_out_ms: list[int] = []
        self._timer = DeadlineTimer(
            self.loop.clock, lambda: None if self.timed_out_ms else self._ends_ms, self._time_out
        )
        self.loop.call_soon(self._timer.arm)

    def receive_heartbeat(self) -> None:
        self._ends_ms = self.clock.monotonic_ms() + SESSION_MS
        self._timer.arm()

    def _time_out(self) -> None:
        self.timed_out_ms.append(self.clock.monotonic_ms())

    def suspend(self, length_ms: int) -> None:
        self.loop.pause()
        self.clock.run_for(length_ms)
        self.loop.resume()


def test_deadline_is_met() -> None:
    bench = Bench()
    bench.clock.run_for(20_000)
    assert bench.timed_out_ms == [9_000]


def test_deadline_is_postponed() -> None:
    bench = Bench()
    bench.clock.run_for(5_000)
    bench.loop.call_soon(bench.receive_heartbeat)
    bench.clock.run_for(20_000)
    assert bench.timed_out_ms == [14_000]


def test_pending_requests_are_read_first_after_a_suspension() -> None:
    bench = Bench()
    bench.clock.run_for(10)
    bench.suspend(15_000)
    bench.clock.run_for(50)
    bench.loop.call_soon(bench.receive_heartbeat)  # The heartbeat was in the socket all the time.
    bench.clock.run_for(5_000)
    assert bench.timed_out_ms == []


def test_a_peer_that_stays_silent_after_a_suspension_times_out() -> None:
    bench = Bench()
    bench.clock.run_for(10)
    bench.suspend(15_000)
    bench.clock.run_for(1_000)
    assert bench.timed_out_ms == [15_110]
