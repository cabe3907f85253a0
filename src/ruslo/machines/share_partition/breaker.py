"""The circuit breaker of a share-partition: it pauses delivery while most records turn out undeliverable.

=========  =================================================================================================
closed     records are delivered; too many undeliverable ones in the window open the breaker
open       nothing is delivered until the pause is over
half open  a few records are delivered as probes: their success closes the breaker, a failure opens it again
=========  =================================================================================================

It protects against a cause outside the records, such as a database that is down: they would all be archived.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

LEAST_RECORDS = 20
"""Records that must have finished in the window before their percentage counts."""
PROBES = 5
BUCKETS = 10
"""The window moves on in steps of this part of it."""


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    percent: int = 0
    """More undeliverable records than this percentage open the breaker; 0: no breaker."""
    window_ms: int = 60_000
    pause_ms: int = 30_000


NO_BREAKER = BreakerSettings()


class BreakerState(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


@dataclass(slots=True)
class _Bucket:
    begin_ms: int
    succeeded: int = 0
    failed: int = 0


@dataclass(slots=True, eq=False)
class CircuitBreaker:
    settings: BreakerSettings
    """May be replaced at any time; without a percentage the breaker closes."""
    _state: BreakerState = BreakerState.CLOSED
    _wait_until_ms: int | None = None
    """Open: the end of the pause. Half open: when other probes follow those that have not finished."""
    _successes: int = 0
    """Records that were accepted since the breaker is half open."""
    _window: deque[_Bucket] = field(default_factory=deque)

    @property
    def state(self) -> BreakerState:
        return self._state if self.settings.percent else BreakerState.CLOSED

    @property
    def is_closed(self) -> bool:
        return self.state is BreakerState.CLOSED

    @property
    def may_deliver(self) -> bool:
        return self.is_closed or (self._state is BreakerState.HALF_OPEN and self._wait_until_ms is None)

    def deadline_ms(self) -> int | None:
        """The time for the next ``tick``."""
        return None if self.is_closed else self._wait_until_ms

    def tick(self, now_ms: int) -> None:
        if self._wait_until_ms is not None and now_ms >= self._wait_until_ms:
            self._wait_until_ms = None
            self._state = BreakerState.HALF_OPEN

    def delivered(self, now_ms: int) -> None:
        """Records were delivered: if these are probes, the next ones wait for them."""
        if self.state is BreakerState.HALF_OPEN:
            self._wait_until_ms = now_ms + self.settings.pause_ms

    def finished(self, succeeded: int, failed: int, returned: int, now_ms: int) -> None:
        """Records were accepted, became undeliverable, or were given back for another delivery."""
        if not self.settings.percent:
            self._close()
        elif self._state is BreakerState.CLOSED:
            self._count(succeeded, failed, now_ms)
        elif self._state is BreakerState.HALF_OPEN:
            self._successes += succeeded
            if failed or returned:
                self._open(now_ms)
            elif self._successes >= PROBES:
                self._close()
            elif succeeded:
                self._wait_until_ms = None

    def _count(self, succeeded: int, failed: int, now_ms: int) -> None:
        window, settings = self._window, self.settings
        if not window or now_ms - window[-1].begin_ms >= settings.window_ms // BUCKETS:
            window.append(_Bucket(now_ms))
        window[-1].succeeded += succeeded
        window[-1].failed += failed
        while now_ms - window[0].begin_ms > settings.window_ms:
            window.popleft()
        all_failed = sum(each.failed for each in window)
        total = all_failed + sum(each.succeeded for each in window)
        if total >= LEAST_RECORDS and 100 * all_failed > settings.percent * total:
            self._open(now_ms)

    def _open(self, now_ms: int) -> None:
        self._window.clear()
        self._successes = 0
        self._state = BreakerState.OPEN
        self._wait_until_ms = now_ms + self.settings.pause_ms

    def _close(self) -> None:
        self._window.clear()
        self._successes = 0
        self._state = BreakerState.CLOSED
        self._wait_until_ms = None
