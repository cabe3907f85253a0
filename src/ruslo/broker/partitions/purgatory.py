"""Purgatory of fetches that wait for enough bytes. Acks wait in ``ack_wait``.

Nothing here polls. A partition notifies its delayed fetches when records become readable; a timer of the
event loop ends the wait otherwise. A fetch that becomes due completes in a later iteration of the loop, so
building its response never delays the response to the producer that woke it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

DelayedFetches: TypeAlias = dict["DelayedFetch", None]
"""The fetches that wait for one partition, in the order of their arrival."""


class DelayedFetch:
    """A fetch that found less than ``min_bytes``; ``complete`` reads everything again and responds.

    ``partitions``: the delayed fetches of every partition that it reads.
    """

    __slots__ = ("_committed_only", "_complete", "_done", "_loop", "_missing_bytes", "_partitions", "_timer")

    def __init__(
        self,
        partitions: Iterable[DelayedFetches],
        missing_bytes: int,
        committed_only: bool,
        max_wait_ms: int,
        complete: Callable[[], None],
    ) -> None:
        self._partitions = tuple(partitions)
        self._missing_bytes = missing_bytes
        self._committed_only = committed_only
        self._complete = complete
        self._done = False
        self._loop = asyncio.get_running_loop()
        for delayed in self._partitions:
            delayed[self] = None
        self._timer = self._loop.call_later(max_wait_ms / 1000, self.wake)

    def on_append(self, size: int, stable_size: int) -> None:
        """``size`` more bytes are readable, ``stable_size`` of them with read_committed."""
        self._missing_bytes -= stable_size if self._committed_only else size
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Complete the fetch: it has enough bytes, its time is over, or the leader changed."""
        if self._done:
            return
        self._done = True
        self._timer.cancel()
        for delayed in self._partitions:
            delayed.pop(self, None)
        self._loop.call_soon(self._complete)
