"""The high watermark of a partition and the consumer fetches that wait for it to advance.

Both roles advance it: the leader when records are committed, a follower when the leader reports it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ruslo.broker.partitions.purgatory import DelayedFetches
from ruslo.storage.log import Log

UNKNOWN_SIZE = 1 << 62
"""Larger than any ``min_bytes``."""


@dataclass(slots=True, eq=False)
class HighWatermark:
    _log: Log
    delayed_fetches: DelayedFetches = field(default_factory=dict)

    def advance(self, offset: int, size: int) -> None:
        """Advance to ``offset`` and count ``size`` more readable bytes for the waiting fetches."""
        log = self._log
        if not self.delayed_fetches:
            log.advance_high_watermark(offset)
            return
        held_back, stable_before = log.high_watermark - log.last_stable_offset, log.last_stable_offset
        if log.advance_high_watermark(offset) and not size:
            # Records that a new leader found in its log, or that a follower received before their commit.
            size = UNKNOWN_SIZE
        stable_size = 0
        if log.last_stable_offset != stable_before:
            # After the end of a transaction an unknown number of bytes becomes readable.
            stable_size = size if held_back == 0 else UNKNOWN_SIZE
        for fetch in tuple(self.delayed_fetches):
            fetch.on_append(size, stable_size)

    def wake_fetches(self) -> None:
        """The role of this broker changed: every waiting fetch completes."""
        for fetch in tuple(self.delayed_fetches):
            fetch.wake()
