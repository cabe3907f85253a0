"""Chores of many shards that come due in the same moment, spread over turns of the event loop.

The offsets of a deleted topic, or sessions that end together after a network fault, give all fifty shards
something to do at once. Each step is short; fifty of them in a row would hold up everybody's requests.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

SLICE_S = 0.002


class Turns:
    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def take(self, chore: Callable[[], None]) -> None:
        """Run it soon. It must not raise."""
        self._waiting.append(chore)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        until = time.monotonic() + SLICE_S
        self._waiting.popleft()()
        while self._waiting and time.monotonic() < until:
            self._waiting.popleft()()
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._run)
