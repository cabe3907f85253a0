"""Writes an empty record when nothing else has been written for a while.

Those who follow the metadata log can tell by it that the leader is alive and how far behind they are
(KIP-835). A node that nobody follows writes none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class IdleRecords:
    def __init__(self, interval_ms: int, write: Callable[[], None]) -> None:
        """``interval_ms`` 0: never."""
        self._interval_s = interval_ms / 1000
        self._write = write
        self._timer: asyncio.TimerHandle | None = None

    def appended(self) -> None:
        """Something was written: the time begins anew."""
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
