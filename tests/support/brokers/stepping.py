"""A scheduler whose slices end after a fixed number of steps, whatever a step costs."""

from __future__ import annotations

from ruslo.broker.scheduling.scheduler import SLICE_NS, Scheduler
from ruslo.model.clock import SystemClock


class SteppingClock(SystemClock):
    """A clock whose nanoseconds advance at every reading."""

    def __init__(self, steps_per_slice: int) -> None:
        self._ns = 0
        self._step_ns = -(-SLICE_NS // steps_per_slice)

    def monotonic_ns(self) -> int:
        self._ns += self._step_ns
        return self._ns


def stepping_scheduler(steps_per_slice: int) -> Scheduler:
    return Scheduler(SteppingClock(steps_per_slice))
