from __future__ import annotations

from ruslo.testing.simulation import LineFaults, SimClock
from ruslo.testing.simulation.connection import Connection, NetworkFaults, OnReply


class Echo:
    """A server that responds with the request in upper case."""

    def __init__(self, faults: NetworkFaults, *, strict: bool, seed: int = 0) -> None:
        self.clock = SimClock(seed)
        self.arrived: list[str] = []
        self.replies: list[str | None] = []
        self._faults = faults
        self._strict = strict

    def connect(self) -> Connection[str]:
        return Connection(self.clock, self._faults, strict=self._strict)

    def send(self, connection: Connection[str], text: str, timeout_ms: int = 100) -> None:
        def deliver(on_reply: OnReply[str]) -> None:
            self.arrived.append(text)
            on_reply(text.upper())

        connection.call(deliver, self.replies.append, timeout_ms)


ALWAYS_SLOW = NetworkFaults(LineFaults(slow=1.0, usual_ms=0, slow_ms=3_000))


def test_response_arrives_once() -> None:
    echo = Echo(NetworkFaults(), strict=False)
    connection = echo.connect()
    for text in "abc":
        echo.send(connection, text)
    echo.clock.run_for(1_000)
    assert echo.arrived == ["a", "b", "c"]
    assert echo.replies == ["A", "B", "C"]


def test_a_request_times_out() -> None:
    echo = Echo(ALWAYS_SLOW, strict=False)
    echo.send(echo.connect(), "a", timeout_ms=1)
    echo.clock.run_for(2)
    assert echo.replies == [None]
    echo.clock.run_for(10_000)
    assert echo.arrived == ["a"], "the request arrives late"
    assert echo.replies == [None]


def test_strict_connection_delivers_nothing_after_it_is_closed() -> None:
    echo = Echo(ALWAYS_SLOW, strict=True)
    connection = echo.connect()
    echo.send(connection, "a", timeout_ms=1)
    connection.close()
    echo.clock.run_for(10_000)
    assert echo.arrived == []
    assert echo.replies == [None]


def test_a_request_may_overtake_one_on_an_older_connection() -> None:
    def order(seed: int) -> list[str]:
        echo = Echo(ALWAYS_SLOW, strict=False, seed=seed)
        echo.send(echo.connect(), "old")
        echo.send(echo.connect(), "new")
        echo.clock.run_for(10_000)
        return echo.arrived

    assert {tuple(order(seed)) for seed in range(10)} == {("old", "new"), ("new", "old")}


def test_duplicates_arrive_later_without_a_response() -> None:
    echo = Echo(NetworkFaults(copied=1.0, copy_ms=500), strict=False)
    echo.send(echo.connect(), "a")
    echo.clock.run_for(10_000)
    assert echo.arrived == ["a", "a"]
    assert echo.replies == ["A"]
