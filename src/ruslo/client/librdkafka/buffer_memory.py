"""The memory of a producer: what ``buffer.memory`` limits and ``max.block.ms`` waits for."""

from __future__ import annotations

import threading
import time


class BufferMemory:
    """Counts the bytes of records that were taken and neither stored nor failed yet. Safe for threads."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.records = 0
        self._used_bytes = 0
        # Every record passes here twice: entering the bare lock is several times cheaper than the condition.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    def try_take(self, size: int) -> bool:
        with self._lock:
            # Who waits goes first, or a small record could starve a large one for ever.
            if self._waiting or self._used_bytes + size > self.total_bytes:
                return False
            self._used_bytes += size
            self.records += 1
            return True

    def take(self, size: int, deadline: float) -> bool:
        """Wait for room until a moment of the monotonic clock; says whether there was any."""
        with self._lock:
            self._waiting += 1
            try:
                while self._used_bytes + size > self.total_bytes:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return False
                    self._changed.wait(left)
                self._used_bytes += size
                self.records += 1
                return True
            finally:
                self._waiting -= 1

    def give_back(self, size: int) -> None:
        with self._lock:
            self._used_bytes -= size
            self.records -= 1
            if self._waiting or not self.records:
                self._changed.notify_all()

    def wait_empty(self, timeout_s: float) -> bool:
        with self._lock:
            return self._changed.wait_for(lambda: not self.records, timeout_s)
