"""Where requests wait: a fetch for enough bytes, a produce for the high watermark.

Nothing here polls. A partition calls its waiters when it moved; a timer of the event loop ends the wait
when nothing did. A waiter that becomes due is completed in a later turn of the loop, so that a producer's
own answer is never held up by building the answers of those who read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

Readers: TypeAlias = dict["DelayedFetch", None]
"""Who waits, in the order they came."""


class DelayedFetch:
    """A fetch that found less than ``min_bytes``; ``complete`` reads everything again and answers.

    ``waiting_in``: the readers of each partition it asks for, who hear of its appends.
    """

    __slots__ = ("_committed_only", "_complete", "_done", "_loop", "_missing_bytes", "_timer", "_waiting_in")

    def __init__(
        self,
        waiting_in: Iterable[Readers],
        missing_bytes: int,
        committed_only: bool,
        max_wait_ms: int,
        complete: Callable[[], None],
    ) -> None:
        self._waiting_in = tuple(waiting_in)
        self._missing_bytes = missing_bytes
        self._committed_only = committed_only
        self._complete = complete
        self._done = False
        self._loop = asyncio.get_running_loop()
        for readers in self._waiting_in:
            readers[self] = None
        self._timer = self._loop.call_later(max_wait_ms / 1000, self.wake)

    def on_append(self, size: int, stable_size: int) -> None:
        """``size`` more bytes are readable, ``stable_size`` for readers of committed data."""
        self._missing_bytes -= stable_size if self._committed_only else size
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Enough bytes, no more time, or the partition changed hands."""
        if self._done:
            return
        self._done = True
        self._timer.cancel()
        for readers in self._waiting_in:
            readers.pop(self, None)
        self._loop.call_soon(self._complete)


class DelayedProduce:
    """A produce whose batches are appended but not yet safe; ``complete(timed_out)`` answers it."""

    __slots__ = ("_complete", "_done", "_outstanding", "_timer", "late")

    def __init__(self, outstanding: int, timeout_ms: int, complete: Callable[[], None]) -> None:
        self._outstanding = outstanding
        self._complete = complete
        self._done = False
        self.late = False
        """The time-out came first: whatever is still outstanding is answered REQUEST_TIMED_OUT."""
        self._timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, self._time_out)

    def on_safe(self) -> None:
        """One more of the appended batches is safe, or has failed."""
        self._outstanding -= 1
        if self._outstanding == 0 and not self._done:
            self._done = True
            self._timer.cancel()
            self._complete()

    def _time_out(self) -> None:
        if not self._done:
            self._done = True
            self.late = True
            self._complete()
