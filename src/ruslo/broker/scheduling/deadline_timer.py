"""Wakes a machine at its deadline.

Most deadlines mean that a peer has been silent for too long. A process that was suspended, like a whole
virtual machine, finds all deadlines passed, while the requests that arrived in time wait in its sockets. A
late timer therefore lets the event loop read them first. Otherwise a controller would fence every broker, and
a coordinator would remove every member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ruslo.model.clock import Clock

LATE_MS = 200
"""A timer that fires later than this first waits for pending requests."""
PENDING_REQUESTS_S = 0.1


class DeadlineTimer:
    def __init__(self, clock: Clock, deadline_ms: Callable[[], int | None], fire: Callable[[], None]) -> None:
        """``deadline_ms``: the deadline on the monotonic clock; None: there is no deadline."""
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._fire = fire
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0
        self._due_ms = 0
        self._has_waited = False
        self._stopped = False

    def arm(self) -> None:
        """Call after every event: the machine may have an earlier deadline than before."""
        deadline_ms = None if self._stopped else self._deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._at_ms <= deadline_ms):
            # A deadline that was postponed is noticed when the timer fires.
            return
        if self._timer is not None:
            self._timer.cancel()
        now_ms = self._clock.monotonic_ms()
        self._at_ms = deadline_ms
        self._due_ms = max(deadline_ms, now_ms)
        self._timer = asyncio.get_running_loop().call_later((self._due_ms - now_ms) / 1000, self._fired)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fired(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._due_ms > LATE_MS and not self._has_waited:
            self._has_waited = True
            self._timer = asyncio.get_running_loop().call_later(PENDING_REQUESTS_S, self._fired)
            return
        self._has_waited = False
        self._timer = None
        deadline_ms = self._deadline_ms()
        if deadline_ms is not None and deadline_ms <= now_ms:
            self._fire()
        else:
            self.arm()
