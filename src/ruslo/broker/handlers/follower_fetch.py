"""One Fetch request of a follower.

A follower reads up to the log end, beyond what is committed, and its fetch offset acknowledges all records
before it. This is half of every replicated produce, while most partitions of its session are idle at any
moment: for an idle partition the broker only checks that there is nothing to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ruslo.broker.handlers.consumer_fetch import TOPIC_IDS_FROM, ConsumerFetch
from ruslo.broker.partitions.purgatory import DelayedFetches
from ruslo.machines.fetch_session import UNKNOWN_OFFSET, CachedPartition
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.fetch_codec import FetchedPartition
from ruslo.storage.disk import FileSlice
from ruslo.storage.log_reader import EMPTY_READ

if TYPE_CHECKING:
    from ruslo.broker.counters.traffic import TopicTraffic
    from ruslo.broker.partitions.partition import Partition
    from ruslo.net.send_queue import Chunk


MAX_PARTITIONS_WITH_RECORDS = 200
"""Partitions with records in one response: the follower serves clients too, and soon fetches again."""


@dataclass(slots=True, eq=False)
class FollowerFetch(ConsumerFetch):
    _received_ms: int = 0
    _idle: list[CachedPartition] = field(default_factory=list)
    """Fetches that find nothing new; ``_idle_partitions`` has their partitions. There may be thousands: a
    tuple for each would keep the garbage collector busy."""
    _idle_partitions: list[Partition] = field(default_factory=list)
    _is_recorded: bool = False
    """The leaders have recorded the fetch offsets of this request."""
    _with_records: int = 0

    def read(self) -> bool:
        if self._is_recorded:
            return self._read_all()
        self._received_ms = self._handler.clock.monotonic_ms()
        waits = self._read_all()
        self._is_recorded = True
        if waits and self._has_new_records():
            return self._read_all()
        return waits

    def _has_new_records(self) -> bool:
        """Whether records were appended since their partition was read.

        The fetch offsets of a follower may commit a coordinator's records. The coordinator then appends its
        next record within the same call, before this fetch waits, so the append cannot wake it.
        """
        idle = zip(self._idle, self._idle_partitions, strict=True)
        return any(partition.log.end_offset > fetch.fetch_offset for fetch, partition in idle) or any(
            partition is not None and partition.log.end_offset > fetch.fetch_offset
            for fetch, _, partition in self._results
        )

    def _read_all(self) -> bool:
        self._results.clear()
        self._readable.clear()
        self._idle.clear()
        self._idle_partitions.clear()
        self._size = 0
        self._with_records = 0
        self._responds_at_once = False
        partitions = self._handler.partitions
        by_topic = partitions.by_id if self._version >= TOPIC_IDS_FROM else partitions.by_name
        for fetch in self._context:
            known = by_topic.get(fetch.topic)
            partition = known.get(fetch.index) if known is not None else None
            if partition is not None and self._is_idle(fetch, partition):
                self._idle.append(fetch)
                self._idle_partitions.append(partition)
            else:
                self._add_result(fetch, partition)
        self._readable += self._idle_partitions
        return self._should_wait()

    def _is_idle(self, fetch: CachedPartition, partition: Partition) -> bool:
        """Whether the follower has everything, which is recorded then; False: read the partition."""
        leader = partition.leader
        log = partition.log
        if (
            leader is None
            or leader.replication is None
            or fetch.fetch_offset != log.end_offset
            or fetch.current_leader_epoch != partition.leader_epoch
            or (
                fetch.last_fetched_epoch >= 0
                and fetch.last_fetched_epoch != log.epochs.latest
                and fetch.last_fetched_epoch != log.epochs.epoch_before(log.end_offset)
            )
        ):
            return False
        body = self._body
        follower = leader.replication.followers.get(body.replica_id)
        if follower is None or body.replica_epoch < follower.broker_epoch:
            return False
        if not self._is_recorded:
            leader.on_follower_fetch(
                follower, fetch.fetch_offset, fetch.log_start_offset, body.replica_epoch, self._received_ms
            )
        if fetch.log_start_offset < log.start_offset and fetch.last_reported_log_start != log.start_offset:
            # The follower has records that are deleted here: DeleteRecords waits for it, and so does its own
            # return to the ISR.
            self._responds_at_once = True
        return True

    def _read_records(
        self, partition: Partition, fetch: CachedPartition, limit: int
    ) -> FetchedPartition[FileSlice]:
        leader = partition.leader
        if leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        body = self._body
        follower = leader.follower(body.replica_id, body.replica_epoch)
        read = EMPTY_READ
        if self._with_records < MAX_PARTITIONS_WITH_RECORDS:
            log = partition.log
            read = log.read(fetch.fetch_offset, limit, log.end_offset, self._size == 0)
        else:
            self._responds_at_once = True
        if not self._is_recorded:
            # Once for each request: its offsets were true when it arrived, not when its wait ends.
            leader.on_follower_fetch(
                follower, fetch.fetch_offset, fetch.log_start_offset, body.replica_epoch, self._received_ms
            )
        if leader.is_over_quota(follower):
            read = EMPTY_READ
        elif read.slice is not None:
            self._with_records += 1
            leader.on_sent(follower, read.slice.size)
        return self._result(partition, fetch.index, read)

    @property
    def _may_read_follower(self) -> bool:
        """Replicas only follow leaders."""
        return False

    def _delayed_fetches(self) -> list[DelayedFetches]:
        return [each.leader.follower_fetches for each in self._readable if each.leader is not None]

    def response(self) -> Sequence[Chunk]:
        """As for a consumer, with idle partitions whose watermarks changed since the last response."""
        includes_all = not self._context.is_incremental
        for fetch, partition in zip(self._idle, self._idle_partitions, strict=True):
            log = partition.log
            if fetch.log_start_offset < log.start_offset:
                # Report it until the follower confirms it: it may have dropped a response.
                fetch.last_reported_log_start = UNKNOWN_OFFSET
            if (
                includes_all
                or fetch.last_reported_high_watermark != log.high_watermark
                or fetch.last_reported_log_start != log.start_offset
            ):
                result = self._result(partition, fetch.index)
                self._results.append((fetch, result, partition))
            else:
                partition.traffic.fetches += 1
        # The class is rebuilt with slots, which breaks super().
        return ConsumerFetch.response(self)

    def _throttle_ms(self) -> int:
        """Replicas have quotas of their own (``replication_quota``)."""
        return 0

    def _count(self, traffic: TopicTraffic, size: int) -> None:
        traffic.fetches += 1
        traffic.replication_bytes_out += size
