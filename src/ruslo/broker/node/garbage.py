"""Keeps the garbage collector from delaying the event loop.

- Reference counts free nearly everything; the collector finds next to nothing. But a full collection visits
  every object: with 10,000 groups it blocks the event loop for a tenth of a second.
- So objects that have survived are frozen, in portions small enough to visit in a few milliseconds. A cycle
  that dies young is found at once.
- A cycle that dies old is found only by a full collection. That happens at most once an hour, if the process
  has grown: then the pause costs less than memory that is never returned.
"""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

YOUNG_OBJECTS = 2_000
"""The number of new objects between two collections of the youngest generation."""
YOUNG_COLLECTIONS_PER_FREEZE = 10
"""Collections of the youngest generation before its survivors are frozen: 20,000 objects take some 5 ms."""
NEVER = 1_000_000_000
FULL_GC_INTERVAL_S = 3600.0
GROWTH_FACTOR = 1.25
"""Growth of the process since the last full collection that makes the next one due."""


@contextmanager
def collection_disabled() -> Iterator[None]:
    """For the import of a node: its objects stay, and collecting them would take a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class GarbageCollection:
    """For a process that is only a broker, because the collector belongs to the whole process."""

    def __init__(self, full_gc_interval_s: float = FULL_GC_INTERVAL_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = gc.get_threshold()
        self._is_due = False
        self._full_gc_interval_s = full_gc_interval_s
        self._full_gc: asyncio.TimerHandle | None = None
        self._last_full_gc_bytes = 0
        self._loading = True

    def start(self) -> None:
        """Called before the node is built: the objects so far, above all modules, stay."""
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS_PER_FREEZE, NEVER)
        gc.callbacks.append(self._collected)
        gc.freeze()
        self._schedule_full_gc()

    def loaded(self) -> None:
        """Called when the node is ready: from now on memory may be returned, and growth counts."""
        self._loading = False
        gc.freeze()
        self._last_full_gc_bytes = _resident_bytes()

    def stop(self) -> None:
        if self._full_gc is not None:
            self._full_gc.cancel()
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def _collected(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 1 and not self._is_due:
            self._is_due = True
            # The collector runs in the thread that created the last object.
            self._loop.call_soon_threadsafe(self._freeze)

    def _freeze(self) -> None:
        self._is_due = False
        if not self._loading:
            gc.collect()
        gc.freeze()

    def _schedule_full_gc(self) -> None:
        self._full_gc = self._loop.call_later(self._full_gc_interval_s, self._collect_all_if_grown)

    def _collect_all_if_grown(self) -> None:
        if _resident_bytes() > self._last_full_gc_bytes * GROWTH_FACTOR:
            gc.unfreeze()
            self._freeze()
            self._last_full_gc_bytes = _resident_bytes()
        self._schedule_full_gc()


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
