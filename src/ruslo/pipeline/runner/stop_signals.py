"""SIGTERM and SIGINT as stop requests, for the whole duration of a run."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self


class StopSignals:
    """Counts signals: the first requests a graceful stop, the second an immediate one."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self.listen()
        return self

    def listen(self) -> None:
        """Called again after Spark has started, which sets its own handler for SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(number, self._count)
            self._before.setdefault(number, before)

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
