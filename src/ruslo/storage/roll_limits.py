"""Limits that the next batch must not exceed to go into the active segment; compared on every append."""

from __future__ import annotations

import random

from ruslo.config.log_config import LogConfig
from ruslo.storage.index import TIME_ENTRY
from ruslo.storage.segment import Segment

MAX_RELATIVE_OFFSET = 2**31 - 1
NEVER = 2**63 - 1
NOT_READY = -1


class RollLimits:
    """``size`` limits the segment, ``timestamp`` and ``offset`` the batch's largest ones.

    ``now_ms`` limits the wall clock instead, for segments whose first batch has no timestamp.
    """

    __slots__ = ("index_may_fill", "now_ms", "offset", "size", "timestamp")

    def __init__(self) -> None:
        self.size = NOT_READY
        self.timestamp = self.offset = self.now_ms = NEVER
        self.index_may_fill = True

    def invalidate(self) -> None:
        """Send the next append through the slow path."""
        self.size = NOT_READY

    def allows(self, size: int, timestamp: int, last_offset: int) -> bool:
        """Whether a batch with this timestamp and last offset may extend the segment to ``size``."""
        return size <= self.size and timestamp <= self.timestamp and last_offset <= self.offset

    def recompute(self, segment: Segment, config: LogConfig) -> None:
        roll_ms = config.segment_ms
        if config.compacts:
            roll_ms = min(roll_ms, config.max_compaction_lag_ms)
        if config.segment_jitter_ms:
            # Partitions that were created together should not all roll together.
            spread = random.Random(segment.stem)
            roll_ms -= spread.randrange(min(config.segment_jitter_ms, roll_ms) or 1)
        self.timestamp = self.now_ms = NEVER
        if segment.size:
            if segment.first_timestamp >= 0:
                self.timestamp = segment.first_timestamp + roll_ms
            else:
                self.now_ms = segment.created_ms + roll_ms
        self.offset = segment.base_offset + MAX_RELATIVE_OFFSET
        # Entries are at least the interval apart, so usually the file is full before its index.
        max_entries = config.segment_bytes // (config.index_interval_bytes + 1) + 1
        self.index_may_fill = max_entries >= config.segment_index_bytes // TIME_ENTRY.size - 1
        is_full = self.index_may_fill and segment.index_is_full(config.segment_index_bytes)
        self.size = 0 if is_full else config.segment_bytes
