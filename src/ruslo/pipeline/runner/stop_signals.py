"""SIGTERM and SIGINT as a wish to stop, from the start of a run to its very end."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Self


class StopSignals:
    """Counts them; the second means: do not wait for the batch in hand."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self.listen()
        return self

    def listen(self) -> None:
        """Again after Spark has started: it sets a handler of its own for SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(number, self._note)
            self._before.setdefault(number, before)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
