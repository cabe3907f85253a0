"""Wakes a shard's machine at its deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ruslo.broker.drivers.coordination.turns import Turns
from ruslo.broker.partitions.partition import Partition
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
        self._clock = clock
        self._turns = turns
        self._deadline_ms = deadline_ms
        self._fire = fire
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0
        self._stopped = False

    def arm(self) -> None:
        """After every event: the machine may have a nearer deadline than before."""
        if self._stopped:
            return
        deadline_ms = self._deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._at_ms <= deadline_ms):
            # A deadline that has moved away is noticed when the timer fires.
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._fired)
        self._at_ms = deadline_ms

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fired(self) -> None:
        self._timer = None
        deadline_ms = self._deadline_ms()
        if deadline_ms is not None and deadline_ms <= self._clock.monotonic_ms():
            self._turns.take(self._take_turn)
        else:
            self.arm()

    def _take_turn(self) -> None:
        if self._stopped:
            return
        try:
            self._fire()
        except Exception:
            # One entry's trouble must not stop the clock of all others in the shard.
            logger.exception("a timer of %s-%d failed", self._partition.topic, self._partition.index)
            self.arm()
