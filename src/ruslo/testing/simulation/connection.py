"""Connections that are slow, close, and deliver requests long after their timeout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from ruslo.testing.simulation.clock import SimClock

ReplyT = TypeVar("ReplyT")
OnReply: TypeAlias = Callable[[ReplyT], None]
Deliver: TypeAlias = Callable[[OnReply[ReplyT]], None]
"""Delivers the request to its receiver, which calls ``OnReply`` with the reply, possibly later or never."""


@dataclass(slots=True)
class LineFaults:
    """The faults may be changed at any time; all zero is a perfect line."""

    lost: float = 0.0
    """The fraction of messages that never arrive."""
    repeated: float = 0.0
    """The fraction of messages that arrive twice."""
    slow: float = 0.0
    """The fraction of messages that take up to ``slow_ms`` instead of ``usual_ms``."""
    usual_ms: int = 5
    slow_ms: int = 3_000


class Line:
    """One direction of a connection: messages arrive in order, late, twice, or not at all."""

    def __init__(self, clock: SimClock, faults: LineFaults) -> None:
        self._clock = clock
        self._faults = faults
        self._last_arrival_ms = 0

    def send(self, arrive: Callable[[], object]) -> None:
        """Messages never overtake each other on a line."""
        clock, faults = self._clock, self._faults
        random = clock.random
        if random.random() < faults.lost:
            return
        longest_ms = faults.slow_ms if random.random() < faults.slow else faults.usual_ms
        arrival_ms = clock.monotonic_ms() + random.randint(0, longest_ms)
        self._last_arrival_ms = max(self._last_arrival_ms, arrival_ms)
        for _ in range(2 if random.random() < faults.repeated else 1):
            clock.call_at(self._last_arrival_ms, arrive)


@dataclass(slots=True)
class NetworkFaults:
    """The probabilities of faults; they may be changed at any time."""

    line: LineFaults = field(default_factory=LineFaults)
    copied: float = 0.0
    """The fraction of requests whose duplicate arrives up to ``copy_ms`` later."""
    copy_ms: int = 4_000


class Connection(Generic[ReplyT]):
    """Delivers requests in order.

    Requests on an old connection may arrive after requests on a new one. Neither here nor in Kafka are
    transactions of version 1 fully protected against that. Such clients use ``strict`` connections: a request
    that has not arrived when the connection closes is lost, and there are no duplicates.
    """

    def __init__(self, clock: SimClock, faults: NetworkFaults, *, strict: bool) -> None:
        self._clock = clock
        self._faults = faults
        self._strict = strict
        self._requests = Line(clock, faults.line)
        self._responses = Line(clock, faults.line)
        self._closed = False

    def call(
        self, deliver: Deliver[ReplyT], on_reply: Callable[[ReplyT | None], None], timeout_ms: int
    ) -> None:
        """``on_reply`` gets the first reply, or None after the timeout."""
        completed = False

        def complete(reply: ReplyT | None) -> None:
            nonlocal completed
            if not completed:
                completed = True
                timer.cancel()
                on_reply(reply)

        def arrive() -> None:
            if not (self._closed and self._strict):
                deliver(lambda reply: self._responses.send(lambda: complete(reply)))

        timer = self._clock.call_later(timeout_ms, lambda: complete(None))
        self._requests.send(arrive)
        random = self._clock.random
        if not self._strict and random.random() < self._faults.copied:
            delay_ms = random.randint(0, self._faults.copy_ms)
            self._clock.call_later(delay_ms, lambda: deliver(lambda reply: None))

    def close(self) -> None:
        self._closed = True
