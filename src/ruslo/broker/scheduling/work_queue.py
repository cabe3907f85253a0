"""Works that must be done in the order in which they were added, one after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, Work

logger = logging.getLogger(__name__)


class WorkQueue:
    def __init__(self, scheduler: Scheduler, *, priority: Priority, name: str) -> None:
        self._scheduler = scheduler
        self._priority = priority
        self._name = name
        self._waiting: deque[Steps[None]] = deque()
        self._is_draining = False
        self._work: Work[None] | None = None

    def add(self, steps: Steps[None]) -> None:
        """Start the work at once if none is waiting. A work that fails is logged; the next ones go on."""
        self._waiting.append(steps)
        if not self._is_draining:
            self._is_draining = True
            self._work = self._scheduler.run(self._drain(), priority=self._priority, name=self._name)

    async def drained(self) -> None:
        """Return when no work is waiting."""
        if self._work is not None:
            await asyncio.wait([self._work])

    def clear(self) -> None:
        """Drop all work, finished or not."""
        self._waiting.clear()
        if self._work is not None:
            self._work.cancel()

    def _drain(self) -> Steps[None]:
        try:
            while self._waiting:
                try:
                    yield from self._waiting.popleft()
                except Exception:
                    logger.exception("%s failed", self._name)
        finally:
            self._is_draining = False
