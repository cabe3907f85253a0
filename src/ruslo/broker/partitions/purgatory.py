"""Where fetches wait for enough bytes. Acks wait in ``ack_wait``.

Nothing here polls. A partition calls its waiting fetches when it has moved; a timer of the event loop ends
the wait when it has not. A fetch that becomes due is completed in a later iteration of the loop, so building
its response never delays the response to the producer that woke it.
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
