"""Work that would block the event loop for too long, done in a thread, one piece at a time.

Several threads at once would not be faster, because they share one interpreter lock, but the event loop would
wait for each of them in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class WorkerThread:
    def __init__(self) -> None:
        self._busy = asyncio.Lock()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``work`` in a thread after everything that was submitted before."""
        async with self._busy:
            return await asyncio.to_thread(work, *args, **kwargs)
