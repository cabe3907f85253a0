"""The clock of a simulated node's scheduler: it divides long work into slices that the seed chooses."""

from __future__ import annotations

from random import Random

from ruslo.broker.scheduling.scheduler import SLICE_NS
from ruslo.model.clock import Clock

MEAN_STEPS_PER_SLICE = 8


class SliceClock:
    """A ``model.clock.Clock`` whose nanoseconds move at every reading, because virtual time does not."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms
        self._random = random
        self._ns = 0

    def monotonic_ns(self) -> int:
        self._ns += self._random.randrange(2 * SLICE_NS // MEAN_STEPS_PER_SLICE)
        return self._ns
