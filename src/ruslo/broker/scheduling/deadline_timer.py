"""Wakes a machine at its deadline.

Most deadlines mean that somebody has been silent for too long. A process that stood still, as its whole
virtual machine may, finds them over, and in its sockets what the others have said in time. So who comes late
listens first: or else a controller fences every broker, and a coordinator drops every member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ruslo.model.clock import Clock

LATE_MS = 200
LISTEN_S = 0.1


class DeadlineTimer:
    def __init__(self, clock: Clock, deadline_ms: Callable[[], int | None], fire: Callable[[], None]) -> None:
        """``deadline_ms``: on the monotonic clock; None: nothing is due."""
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._fire = fire
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0
        self._due_ms = 0
        self._has_listened = False
        self._stopped = False

    def arm(self) -> None:
        """After every event: the machine may have a nearer deadline than before."""
        deadline_ms = None if self._stopped else self._deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._at_ms <= deadline_ms):
            # A deadline that has moved away is noticed when the timer fires.
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
        if now_ms - self._due_ms > LATE_MS and not self._has_listened:
            self._has_listened = True
            self._timer = asyncio.get_running_loop().call_later(LISTEN_S, self._fired)
            return
        self._has_listened = False
        self._timer = None
        deadline_ms = self._deadline_ms()
        if deadline_ms is not None and deadline_ms <= now_ms:
            self._fire()
        else:
            self.arm()
