"""The memory of a producer, which ``buffer.memory`` limits."""

from __future__ import annotations

import threading
import time


class BufferMemory:
    """Counts the bytes of accepted records until they are acknowledged or fail. Thread-safe."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.records = 0
        self._used_bytes = 0
        # Every record locks twice; a bare lock is several times cheaper than the condition.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    def try_reserve(self, size: int) -> bool:
        with self._lock:
            # Waiting threads go first; else small records could starve a large one.
            if self._waiting or self._used_bytes + size > self.total_bytes:
                return False
            self._used_bytes += size
            self.records += 1
            return True

    def reserve(self, size: int, deadline: float) -> bool:
        """Wait for room until ``deadline`` (monotonic clock); returns whether the bytes were reserved."""
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

    def release(self, size: int) -> None:
        with self._lock:
            self._used_bytes -= size
            self.records -= 1
            if self._waiting or not self.records:
                self._changed.notify_all()

    def wait_empty(self, timeout_s: float) -> bool:
        with self._lock:
            return self._changed.wait_for(lambda: not self.records, timeout_s)
