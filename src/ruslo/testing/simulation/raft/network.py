"""The network between the nodes: messages arrive late, out of order, twice, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ruslo.testing.simulation.clock import SimClock


@dataclass(slots=True)
class NetworkFaults:
    """The faults may be changed at any time; all zero is a perfect network."""

    lost: float = 0.0
    repeated: float = 0.0
    slow: float = 0.0
    """The fraction of messages that take up to ``slow_ms`` instead of ``usual_ms``, so others overtake
    them."""
    usual_ms: int = 3
    slow_ms: int = 1_500


class SimNetwork:
    def __init__(self, clock: SimClock, faults: NetworkFaults | None = None) -> None:
        self.clock = clock
        self.faults = faults or NetworkFaults()
        self.blocked: set[tuple[int, int]] = set()
        """Pairs of sender and receiver without a connection; a single direction may be blocked."""

    def send(self, source: int, target: int, arrive: Callable[[], object]) -> None:
        random, faults = self.clock.random, self.faults
        if (source, target) in self.blocked or random.random() < faults.lost:
            return
        for _ in range(2 if random.random() < faults.repeated else 1):
            longest_ms = faults.slow_ms if random.random() < faults.slow else faults.usual_ms
            self.clock.call_later(random.randint(0, longest_ms), arrive)

    def isolate(self, node: int, others: list[int], *, inwards: bool = True, outwards: bool = True) -> None:
        for other in others:
            if other != node:
                if inwards:
                    self.blocked.add((other, node))
                if outwards:
                    self.blocked.add((node, other))

    def heal(self) -> None:
        self.blocked.clear()
