"""The receive buffer of a connection, with the memory that a large request takes while it arrives.

* It starts small and grows only as bytes arrive, never because a length field announces them.
* It is replaced, not resized, because a live memoryview forbids resizing.
* The memory of frames above a megabyte is counted over all connections (``request_memory``). If none is left,
  the connection must not read until ``on_memory`` is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ruslo.net.request_memory import LARGE_FRAME_BYTES, RequestMemory

INITIAL_BUFFER_BYTES = 8 * 1024
IDLE_BUFFER_BYTES = 64 * 1024
"""A larger buffer returns to the initial size when the connection is idle."""
KEPT_BUFFER_BYTES = 4 * 1024 * 1024
"""A larger buffer returns to the initial size after the request that needed it."""


class ReceiveBuffer:
    __slots__ = (
        "_closed",
        "_memory",
        "_on_memory",
        "capacity",
        "data",
        "end",
        "memory_bytes",
        "start",
        "view",
        "waits_for_memory",
    )

    def __init__(self, memory: RequestMemory, on_memory: Callable[[], None]) -> None:
        self.data = bytearray(INITIAL_BUFFER_BYTES)
        self.view = memoryview(self.data)
        self.capacity = INITIAL_BUFFER_BYTES
        self.start = 0
        self.end = 0
        """The received bytes that are not handled yet are ``data[start:end]``."""
        self.memory_bytes = 0
        """Memory taken for the frame that is arriving."""
        self.waits_for_memory = False
        self._memory = memory
        self._on_memory = on_memory
        self._closed = False

    def make_room(self) -> None:
        """The buffer is full: move the incomplete frame to the front, or into a larger buffer."""
        start = self.start
        held = self.end - start
        if held * 2 > self.capacity:
            wanted = 4 + int.from_bytes(self.data[start : start + 4], "big") if held >= 4 else 0
            # At most four times what has arrived, so that a length alone allocates little; one and a half
            # frames, so that the next pipelined frame does not have to be moved at once.
            self._replace(min(max(wanted + wanted // 2, self.capacity), held * 4))
        elif start:
            self.view[:held] = self.view[start : self.end]
            self.start, self.end = 0, held

    def shrink(self) -> None:
        """The connection is idle: release a large buffer."""
        if self.capacity > IDLE_BUFFER_BYTES and self.end == 0:
            self._replace(INITIAL_BUFFER_BYTES)

    def _replace(self, capacity: int) -> None:
        held = self.end - self.start
        fresh = bytearray(capacity)
        fresh[:held] = self.view[self.start : self.end]
        self.data = fresh
        self.view = memoryview(fresh)
        self.capacity = capacity
        self.start, self.end = 0, held

    # -- memory of large frames ------------------------------------------------------------------------------

    @property
    def holds_memory(self) -> bool:
        """Whether memory is taken for a frame that has not arrived completely."""
        return self.memory_bytes > 0 and not self.waits_for_memory

    def take_memory(self) -> bool:
        """The buffer is full: take the memory to grow for a large frame; False if there is none yet."""
        if self.waits_for_memory or (self.end - self.start) * 2 <= self.capacity:
            return True
        size = 4 + int.from_bytes(self.data[self.start : self.start + 4], "big")
        missing = size - self.memory_bytes
        if missing <= 0:
            return True
        if self._memory.take(missing, partial(self._granted, missing)):
            self.memory_bytes = size
            return True
        self.waits_for_memory = True
        return False

    def _granted(self, size: int) -> bool:
        """There is memory again; returns whether the connection still wants it."""
        self.waits_for_memory = False
        if self._closed:
            return False
        self.memory_bytes += size
        self._on_memory()
        return True

    def give_memory_back(self) -> None:
        """Return the memory, unless the rest of the frame, or of the next large one, is still to come."""
        held = self.end - self.start
        if held > LARGE_FRAME_BYTES:
            return
        if self.capacity > KEPT_BUFFER_BYTES:
            self._replace(max(2 * held, INITIAL_BUFFER_BYTES))
        size, self.memory_bytes = self.memory_bytes, 0
        self._memory.give_back(size)

    def close(self) -> None:
        """The connection has ended. Without its callback it is freed at once, with the buffer."""
        self._closed = True
        self._on_memory = _ignore
        if self.memory_bytes:
            size, self.memory_bytes = self.memory_bytes, 0
            self._memory.give_back(size)


def _ignore() -> None:
    """The connection has ended."""
