"""Writes a NoOp record when nothing else has been appended for a while (KIP-835).

Followers of the metadata log see by it that the leader is alive and how far behind they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class NoOpWriter:
    def __init__(self, interval_ms: int, write: Callable[[], None]) -> None:
        """``interval_ms`` 0: never write one."""
        self._interval_s = interval_ms / 1000
        self._write = write
        self._timer: asyncio.TimerHandle | None = None

    def appended(self) -> None:
        """Something was appended: the interval starts again."""
        if self._timer is not None:
            self.stop()
            self.start()

    def start(self) -> None:
        if self._timer is None and self._interval_s > 0:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self.start()
        self._write()
