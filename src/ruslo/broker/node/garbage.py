"""Keeps the collector of reference cycles from holding up the event loop.

Nearly everything here is freed by reference counts; the collector finds next to nothing. But it looks at
every object there is when it looks for old garbage: with 10,000 groups that is a tenth of a second in which
nobody is served. So what has lived long is put out of its sight, in portions small enough to look through
in a few milliseconds. A cycle that dies young is found at once. One that dies old is found only when
everything is looked at, which is done, at most once an hour, when the process has grown: there such a pause
costs less than memory that never comes back.
"""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

YOUNG = 2_000
"""New objects from one look at the youngest to the next."""
YOUNG_LOOKS = 10
"""Looks at the youngest before those that outlived them are put away: 20,000 objects take some 5 ms."""
NEVER = 1_000_000_000
FULL_LOOK_S = 3600.0
GROWN = 1.25
"""By so much since everything was last looked at, or since the start."""


@contextmanager
def collection_put_off() -> Iterator[None]:
    """Around the import of a node: what it makes stays, and looking through it takes a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class GarbageWatch:
    """For a process that is nothing but a broker: the collector belongs to the whole process."""

    def __init__(self, full_look_s: float = FULL_LOOK_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = gc.get_threshold()
        self._is_due = False
        self._full_look_s = full_look_s
        self._full_look: asyncio.TimerHandle | None = None
        self._looked_at_bytes = 0
        self._loading = True

    def start(self) -> None:
        """Before the node: what has been made so far, modules above all, is there to stay."""
        gc.set_threshold(YOUNG, YOUNG_LOOKS, NEVER)
        gc.callbacks.append(self._collected)
        gc.freeze()
        self._look_later()

    def loaded(self) -> None:
        """The node serves: from here on memory may be given back, and growth counts."""
        self._loading = False
        gc.freeze()
        self._looked_at_bytes = _resident_bytes()

    def stop(self) -> None:
        if self._full_look is not None:
            self._full_look.cancel()
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def _collected(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 1 and not self._is_due:
            self._is_due = True
            # The collector works in whichever thread made the last object.
            self._loop.call_soon_threadsafe(self._put_away)

    def _put_away(self) -> None:
        self._is_due = False
        if not self._loading:
            gc.collect()
        gc.freeze()

    def _look_later(self) -> None:
        self._full_look = self._loop.call_later(self._full_look_s, self._look_at_everything)

    def _look_at_everything(self) -> None:
        if _resident_bytes() > self._looked_at_bytes * GROWN:
            gc.unfreeze()
            self._put_away()
            self._looked_at_bytes = _resident_bytes()
        self._look_later()


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
