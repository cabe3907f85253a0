"""Connections that are slow, close, and deliver requests long after their timeout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.line import Line, LineFaults

ReplyT = TypeVar("ReplyT")
Answer: TypeAlias = Callable[[ReplyT], None]
Deliver: TypeAlias = Callable[[Answer[ReplyT]], None]
"""Delivers the request to its receiver, which calls ``Answer`` with the reply, possibly later or never."""


@dataclass(slots=True)
class NetworkFaults:
    """The probabilities of faults; they may be changed at any time."""

    line: LineFaults = field(default_factory=LineFaults)
    copied: float = 0.0
    """The fraction of requests whose duplicate arrives up to ``copy_ms`` later."""
    copy_ms: int = 4_000


class Connection(Generic[ReplyT]):
    """Requests on it arrive in order.

    Requests on an old connection may arrive after requests on a new one. Transactions of version 1 are not
    protected against that everywhere, in Kafka neither. Such clients use ``strict`` connections: a request
    that has not arrived when the connection closes is lost, and there are no duplicates.
    """

    def __init__(self, clock: SimClock, faults: NetworkFaults, *, strict: bool) -> None:
        self._clock = clock
        self._faults = faults
        self._strict = strict
        self._there = Line(clock, faults.line)
        self._back = Line(clock, faults.line)
        self._closed = False

    def call(
        self, deliver: Deliver[ReplyT], on_reply: Callable[[ReplyT | None], None], timeout_ms: int
    ) -> None:
        """``on_reply`` gets the first reply, or None after the timeout."""
        settled = False

        def settle(reply: ReplyT | None) -> None:
            nonlocal settled
            if not settled:
                settled = True
                timer.cancel()
                on_reply(reply)

        def arrive() -> None:
            if not (self._closed and self._strict):
                deliver(lambda reply: self._back.send(lambda: settle(reply)))

        timer = self._clock.call_later(timeout_ms, lambda: settle(None))
        self._there.send(arrive)
        random = self._clock.random
        if not self._strict and random.random() < self._faults.copied:
            delay_ms = random.randint(0, self._faults.copy_ms)
            self._clock.call_later(delay_ms, lambda: deliver(lambda reply: None))

    def close(self) -> None:
        self._closed = True
