"""A partition while another broker leads it: appends what the leader sends, and follows its offsets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ruslo.broker.counters.traffic import TopicTraffic
from ruslo.broker.partitions.flush_policy import FlushPolicy
from ruslo.broker.partitions.high_watermark import HighWatermark
from ruslo.storage.log import Log


@dataclass(slots=True, eq=False)
class PartitionFollower:
    _log: Log
    _flush: FlushPolicy
    _high_watermark: HighWatermark
    _traffic: TopicTraffic
    last_reported_high_watermark: int = 0
    """The high watermark in the leader's last response."""
    _after_sync: Callable[[], None] | None = None

    def append(self, records: memoryview, leader_epoch: int, now_ms: int) -> None:
        """Append the leader's batches unchanged. Raises CorruptLogError or DiskError."""
        self._log.append_follower(records, leader_epoch, now_ms)
        self._traffic.replication_bytes_in += len(records)

    def sync_before_fetch(self, fetch: Callable[[], None]) -> bool:
        """Whether ``flush.messages`` requires a sync before the next fetch: then ``fetch`` is called after
        it.

        The fetch offset tells the leader what this replica has, so it must be durable first.
        """
        if not self._flush.is_due:
            return False
        self._after_sync = fetch
        self._flush.request_sync()
        return True

    def on_synced(self) -> None:
        """A sync does not commit anything on a follower: the leader reports the high watermark."""
        if not self._flush.is_due:
            fetch, self._after_sync = self._after_sync, None
            if fetch is not None:
                fetch()

    def on_leader_offsets(self, high_watermark: int, log_start_offset: int, size: int) -> None:
        """The leader reported its offsets with ``size`` bytes of records."""
        log = self._log
        self.last_reported_high_watermark = high_watermark
        if log_start_offset > log.start_offset:
            log.advance_start_offset(min(log_start_offset, log.end_offset))
        if high_watermark > log.high_watermark:
            self._high_watermark.advance(min(high_watermark, log.end_offset), size)

    @property
    def lag(self) -> int:
        """Records that the leader has committed and this replica does not have."""
        return max(self.last_reported_high_watermark - self._log.end_offset, 0)

    def stop(self) -> None:
        """The leader changed: do not fetch from the previous one after a sync."""
        self._after_sync = None
