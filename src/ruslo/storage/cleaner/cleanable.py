"""Decides whether a log is worth compacting, and makes the task for it; runs on the event loop."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ruslo.config.limits import LONG_MAX
from ruslo.storage.cleaner.task import NO_DATA, CleanTask, SourceSegment
from ruslo.storage.log import Log
from ruslo.storage.log_reader import segment_at


class CleanerLimits(NamedTuple):
    """The limits of one cleaner in the broker's config."""

    memory_bytes: int
    io_buffer_bytes: int
    io_bytes_per_second: float | None


class Cleanable(NamedTuple):
    log: Log
    first_dirty_offset: int
    end_offset: int
    """The end offset of the round."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether a dirty record is older than ``max.compaction.lag.ms``."""

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)

    @property
    def is_worth_cleaning(self) -> bool:
        return self.overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def first_dirty_offset(log: Log, checkpoint: int | None) -> int:
    """The offset at which compaction continues; a checkpoint outside the log is ignored."""
    if checkpoint is None or not log.start_offset <= checkpoint <= log.end_offset:
        return log.start_offset
    return checkpoint


def find_cleanable(log: Log, checkpoint: int | None, now_ms: int) -> Cleanable | None:
    """What a round would compact; None if the log has nothing to compact."""
    config = log.config
    if not config.compacts or log.failure is not None or log.swap is not None or len(log.segments) < 2:
        return None
    first_dirty = first_dirty_offset(log, checkpoint)
    # Unsynced records are not compacted: compaction leaves gaps, and recovery takes a gap for a loss.
    end = min(log.last_stable_offset, log.active.base_offset, log.recovery_point)
    if config.min_compaction_lag_ms > 0:
        for segment in log.segments[segment_at(log.segments, first_dirty) : -1]:
            if segment.largest().timestamp > now_ms - config.min_compaction_lag_ms:
                end = min(end, segment.base_offset)
                break
    if end <= first_dirty:
        return None
    # A segment that is compacted only in part does not count.
    last = segment_at(log.segments, end)
    clean_bytes = dirty_bytes = 0
    overdue = False
    for segment, following in pairwise(log.segments[: last + 1]):
        if following.base_offset <= first_dirty:
            clean_bytes += segment.size
            continue
        dirty_bytes += segment.size
        if config.max_compaction_lag_ms < LONG_MAX and not overdue:
            timestamp = segment.timestamp_of_first_batch()
            overdue = 0 < timestamp < now_ms - config.max_compaction_lag_ms
    if not dirty_bytes:
        return None
    return Cleanable(log, first_dirty, end, clean_bytes, dirty_bytes, overdue)


def make_task(chosen: Cleanable, limits: CleanerLimits, now_ms: int) -> CleanTask:
    log, config = chosen.log, chosen.log.config
    return CleanTask(
        directory=log.directory,
        path=log.path,
        segments=[
            SourceSegment(segment.base_offset, segment.size, following.base_offset)
            for segment, following in pairwise(log.segments)
            if segment.base_offset < chosen.end_offset
        ],
        txn_index_segments=[segment.base_offset for segment in log.segments if segment.txn_index.exists],
        first_dirty_offset=chosen.first_dirty_offset,
        end_offset=chosen.end_offset,
        now_ms=now_ms,
        producers={
            producer_id: (entry.batches[-1].last_offset if entry.batches else NO_DATA, entry.epoch)
            for producer_id, entry in log.producers.entries.items()
        },
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        memory_bytes=limits.memory_bytes,
        io_buffer_bytes=limits.io_buffer_bytes,
        io_bytes_per_second=limits.io_bytes_per_second,
    )
