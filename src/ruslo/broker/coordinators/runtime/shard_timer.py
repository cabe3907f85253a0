"""Wakes a shard's machine at its deadline.

Many shards may have the same deadline: sessions that end together after a network fault, or the offsets of a
deleted topic. Each machine's step is work for the scheduler, so requests are served in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.model.clock import Clock

logger = logging.getLogger(__name__)


class ShardTimer:
    def __init__(
        self,
        partition: Partition,
        clock: Clock,
        scheduler: Scheduler,
        deadline_ms: Callable[[], int | None],
        fire: Callable[[], None],
    ) -> None:
        self._partition = partition
        self._fire = fire
        self._scheduler = scheduler
        self._timer = DeadlineTimer(clock, deadline_ms, self._start)
        self._stopped = False

    def arm(self) -> None:
        """After every event: the machine may have a nearer deadline than before."""
        self._timer.arm()

    def stop(self) -> None:
        self._stopped = True
        self._timer.stop()

    def _start(self) -> None:
        self._scheduler.run(self._steps(), priority=Priority.REQUEST, name="a coordinator's timer")

    def _steps(self) -> Steps[None]:
        if self._stopped:
            return
        try:
            self._fire()
        except Exception:
            # One entry's trouble must not stop the clock of all others in the shard.
            logger.exception("a timer of %s-%d failed", self._partition.topic, self._partition.index)
            self.arm()
        yield
