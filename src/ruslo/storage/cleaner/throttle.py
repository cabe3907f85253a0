"""``log.cleaner.io.max.bytes.per.second``: the cleaner sleeps when it has read and written too much."""

from __future__ import annotations

import time
from collections.abc import Callable

_SHORTEST_S = 0.01


class Throttle:
    def __init__(self, bytes_per_second: float | None, on_progress: Callable[[], None]) -> None:
        self._rate = bytes_per_second
        self._on_progress = on_progress
        self._debt_s = 0.0
        self._since_s = time.monotonic()

    def spend(self, size: int) -> None:
        """Note what was read or written, and wait if it was too much."""
        self._on_progress()
        if self._rate is None:
            return
        now_s = time.monotonic()
        self._debt_s = max(self._debt_s - (now_s - self._since_s), 0.0) + size / self._rate
        self._since_s = now_s
        if self._debt_s >= _SHORTEST_S:
            time.sleep(self._debt_s)
