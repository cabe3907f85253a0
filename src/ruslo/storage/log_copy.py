"""Copies a log to another log directory of the same broker while it is in use (KIP-113).

The copy, Kafka's future log, gets the batches of the log as they are, in order, like a follower. So it has
its own segments, indexes and snapshots, and it is a valid log at every moment. When it has caught up, it
replaces the log: ``LogManager.replace_by_future``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ruslo.config.limits import INT_MAX, LONG_MAX
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import size_of
from ruslo.storage.batch_scan import buffer_headers
from ruslo.storage.disk import DiskError, FileSlice
from ruslo.storage.leader_epochs import LeaderEpochCache
from ruslo.storage.log import Log


@dataclass(slots=True, eq=False)
class LogCopy:
    source: Log
    future: Log

    def __post_init__(self) -> None:
        """The copy may be older than this process: keep only what both logs have in common."""
        self.source.truncated_to = LONG_MAX
        if self.future.end_offset > self.future.start_offset:
            common = _common_end(self.source, self.future)
            if common < self.future.end_offset:
                self.future.truncate_to(max(common, self.future.segments[0].base_offset))
        self.follow_source()

    @property
    def lag(self) -> int:
        """Offsets that the copy does not have yet; below 0 after a truncation of the source."""
        return self.source.end_offset - self.future.end_offset

    @property
    def has_caught_up(self) -> bool:
        """Whether the copy has every batch; the source may end with a gap, where compacted batches were."""
        return self.lag == 0 or (self.lag > 0 and self.next_slice(1) is None)

    def follow_source(self) -> None:
        """Apply what happened to the source: truncations, a new log start offset, new topic settings."""
        source, future = self.source, self.future
        if future.config is not source.config:
            future.configure(source.config)
        future.gaps_below = source.gaps_below
        truncated_to, source.truncated_to = source.truncated_to, LONG_MAX
        if truncated_to < future.end_offset:
            future.truncate_to(truncated_to)
        if future.end_offset < source.start_offset:
            # Retention, DeleteRecords or the leader has removed records that were not copied yet.
            future.truncate_fully_and_start_at(source.start_offset)
        future.advance_start_offset(source.start_offset)
        future.advance_high_watermark(source.high_watermark)

    def next_slice(self, max_bytes: int) -> FileSlice | None:
        """The bytes to append next, at least one whole batch; None if the copy has everything.

        Raises KafkaError if they are damaged.
        """
        source, future = self.source, self.future
        if self.lag <= 0:
            return None
        found = source.read(future.end_offset, max_bytes, source.end_offset).slice
        if found is None and not source.may_have_gap(source.end_offset):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{source} has no batch at {future.end_offset}")
        return found

    def append(self, data: ReadBuffer, now_ms: int) -> bool:
        """Append the bytes of ``next_slice``; False if the source has changed so that other bytes come next.

        It was truncated, or retention or DeleteRecords has removed records that were not copied yet.
        """
        if self.source.truncated_to < LONG_MAX:
            return False
        end_offset = self.future.append_follower(data, INT_MAX, now_ms)
        self.follow_source()
        return self.future.end_offset == end_offset

    def prepare_replacement(self, now_ms: int) -> None:
        """Give the copy, which has caught up, the state that is not in the batches, and make it durable.

        Epochs without records and producers whose records were deleted are known to the source only.
        """
        source, future = self.source, self.future
        assert self.has_caught_up, f"{future} has not caught up with {source}"
        self.follow_source()
        if future.epochs.entries() != source.epochs.entries():
            future.epochs = LeaderEpochCache(source.epochs.entries())
            future.epochs.dirty = True
        if source.producers.entries:
            self._write_snapshot()
        if future.recovery_point < source.recovery_point or future.epochs.dirty:
            # Records that were durable in the source may have been acknowledged because of that.
            future.flush(now_ms)

    def _write_snapshot(self) -> None:
        """Write the producer state of the source as that of the copy."""
        future = self.future
        own, future.producers = future.producers, self.source.producers
        future.snapshot_offset = min(future.snapshot_offset, future.end_offset - 1)
        try:
            future.write_producer_snapshot()
        except DiskError as error:
            # The copy is whole without it: it can be tried again when there is space.
            error.fatal = error.fatal and not error.disk_full
            raise
        finally:
            # Batches that are copied after a failed replacement must not be counted twice.
            future.producers = own


def whole_batches_up_to(data: ReadBuffer, max_bytes: int) -> Iterator[memoryview]:
    """Divide a buffer into pieces of whole batches; a piece is larger only if it is one batch."""
    view = memoryview(data)
    start = stop = 0
    for position, header in buffer_headers(data):
        if position > start and position + size_of(header) - start > max_bytes:
            yield view[start:position]
            start = position
        stop = position + size_of(header)
    if stop > start:
        yield view[start:stop]


def _common_end(source: Log, future: Log) -> int:
    """The offset up to which both logs have the same records, by their leader epochs (KIP-101)."""
    epoch = future.epochs.latest
    while epoch >= 0:
        end = source.end_offset_for_epoch(min(epoch, source.epochs.latest))
        own = future.end_offset_for_epoch(end.epoch)
        if end.epoch < 0 or own.epoch < 0:
            break
        if own.epoch == end.epoch:
            return min(end.end_offset, own.end_offset)
        epoch = own.epoch
    return future.start_offset
