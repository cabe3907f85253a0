"""Wakes a shard's machine at its deadline."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ruslo.broker.coordinators.runtime.turns import Turns
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
from ruslo.model.clock import Clock

logger = logging.getLogger(__name__)


class ShardTimer:
    def __init__(
        self,
        partition: Partition,
        clock: Clock,
        turns: Turns,
        deadline_ms: Callable[[], int | None],
        fire: Callable[[], None],
    ) -> None:
        self._partition = partition
        self._fire = fire
        self._timer = DeadlineTimer(clock, deadline_ms, lambda: turns.take(self._take_turn))
        self._stopped = False

    def arm(self) -> None:
        """After every event: the machine may have a nearer deadline than before."""
        self._timer.arm()

    def stop(self) -> None:
        self._stopped = True
        self._timer.stop()

    def _take_turn(self) -> None:
        if self._stopped:
            return
        try:
            self._fire()
        except Exception:
            # One entry's trouble must not stop the clock of all others in the shard.
            logger.exception("a timer of %s-%d failed", self._partition.topic, self._partition.index)
            self.arm()
