"""``log.cleaner.io.max.bytes.per.second``: limits reads and writes of the cleaner."""

from __future__ import annotations

import time
from collections.abc import Callable

_MIN_SLEEP_S = 0.01


class Throttle:
    def __init__(self, bytes_per_second: float | None, on_progress: Callable[[], None]) -> None:
        self._rate = bytes_per_second
        self._on_progress = on_progress
        self._debt_s = 0.0
        self._since_s = time.monotonic()

    def spend(self, size: int) -> None:
        """Count bytes that were read or written, and sleep if they exceed the limit."""
        self._on_progress()
        if self._rate is None:
            return
        now_s = time.monotonic()
        self._debt_s = max(self._debt_s - (now_s - self._since_s), 0.0) + size / self._rate
        self._since_s = now_s
        if self._debt_s >= _MIN_SLEEP_S:
            time.sleep(self._debt_s)
