"""One direction of a connection: messages arrive in order, late, twice, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ruslo.testing.simulation.clock import SimClock


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
