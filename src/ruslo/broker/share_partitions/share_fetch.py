"""One fetch of a member of a share group: it acquires records now, or waits until there are some.

Finding, reading and acquiring happen in one call on the event loop, so two fetches never read the same
records, and no lock is needed. A fetch that finds less than ``min_bytes`` waits in purgatory. It looks again
when a partition grows, when records become available again, and when its time is up; records that
another member has acquired meanwhile are not there any more, and it goes on waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ruslo.broker.partitions.purgatory import DelayedFetch
from ruslo.broker.share_partitions.delivery_rules import MAX_DECODED_BYTES, decode_rules, rules_from
from ruslo.broker.share_partitions.led_partition import LedSharePartition
from ruslo.broker.share_partitions.log_batches import LogBatches, scan
from ruslo.machines.share_partition.values import AcquireLimits, DeliveryRule, FetchedBatches
from ruslo.machines.share_session import TopicIdPartition
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.share_fetch_response_codec import FetchedSharePartition
from ruslo.storage.disk import FileSlice

if TYPE_CHECKING:
    from ruslo.broker.share_partitions.manager import SharePartitionManager

FetchResults: TypeAlias = dict[TopicIdPartition, FetchedSharePartition[FileSlice]]


class FetchLimits(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    acquire: AcquireLimits


class _Readable(NamedTuple):
    led: LedSharePartition
    offset: int
    read: FileSlice


@dataclass(slots=True, eq=False)
class ShareFetch:
    _manager: SharePartitionManager
    _member: str
    _limits: FetchLimits
    _targets: Mapping[TopicIdPartition, LedSharePartition]
    """The share-partitions to read, in the order in which they are served."""
    _may_acquire: Callable[[], bool]
    """False: the client is gone or has closed its session, so it would not get the records."""
    done: asyncio.Future[FetchResults] = field(init=False)
    _results: FetchResults = field(default_factory=dict)
    _readable: list[_Readable] = field(default_factory=list)
    _size: int = 0
    _responds_at_once: bool = False
    _deadline_s: float = 0
    _delayed: DelayedFetch | None = None

    def __post_init__(self) -> None:
        self.done = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self._deadline_s = asyncio.get_running_loop().time() + self._limits.max_wait_ms / 1000
        self._look()

    def abandon(self) -> None:
        """End the wait without acquiring anything."""
        if not self.done.done():
            self.done.set_result({})
        if self._delayed is not None:
            self._delayed.wake()

    def _look(self) -> None:
        try:
            self._look_or_wait()
        except Exception as error:
            # The purgatory calls this: without a result the client would wait for ever.
            if not self.done.done():
                self.done.set_exception(error)

    def _look_or_wait(self) -> None:
        if self.done.done():
            return
        if not self._may_acquire():
            self.done.set_result({})
            return
        self._find()
        left_ms = (self._deadline_s - asyncio.get_running_loop().time()) * 1000
        is_satisfied = bool(self._results) and self._size >= self._limits.min_bytes
        if left_ms > 0 and not (is_satisfied or self._responds_at_once):
            self._wait(left_ms)
            return
        if left_ms <= 0 and self._delayed is not None:
            self._manager.counters.expired_fetches += 1
        self._acquire()
        self.done.set_result(self._results)

    def _wait(self, left_ms: float) -> None:
        targets = self._targets.values()
        self._delayed = DelayedFetch(
            [
                queue
                for led in targets
                if led.failure is None
                for queue in (led.delayed_fetches, led.partition.delayed_fetches)
            ],
            max(self._limits.min_bytes - self._size, 1),
            any(led.config.is_read_committed for led in targets),
            max(int(left_ms), 1),
            self._look,
        )

    # -- finding ---------------------------------------------------------------------------------------------

    def _find(self) -> None:
        """Find the records that could be acquired now."""
        self._results.clear()
        self._readable.clear()
        self._size, self._responds_at_once = 0, False
        found: list[tuple[TopicIdPartition, LedSharePartition, int]] = []
        for tp, led in self._targets.items():
            self._manager.check(led)
            if led.failure is not None:
                # If it could not be loaded, an immediate response would only bring the next request sooner.
                self._fail(tp, led.failure, at_once=led.failure.code is ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            machine = led.machine
            if machine is None:
                continue
            machine.advance_log_start(led.partition.log.start_offset)
            if not machine.can_acquire():
                continue
            self._results[tp] = FetchedSharePartition()
            offset = machine.next_fetch_offset()
            if offset < led.readable_end:
                found.append((tp, led, offset))
        for tp, led, offset in found:
            try:
                self._read(led, offset, max(self._limits.max_bytes // len(found), 1))
            except KafkaError as error:
                self._fail(tp, error)
            except StorageError as error:
                self._manager.storage_failed(error)
                self._fail(tp, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))

    def _fail(self, tp: TopicIdPartition, error: KafkaError, *, at_once: bool = True) -> None:
        self._responds_at_once |= at_once
        self._results[tp] = FetchedSharePartition(error_code=error.code, error_message=error.message)

    def _read(self, led: LedSharePartition, offset: int, max_bytes: int) -> None:
        partition = led.partition
        if led.config.has_delivery_rules:
            max_bytes = min(max_bytes, MAX_DECODED_BYTES)
        read = partition.read(
            offset, max_bytes, led.config.is_read_committed, at_least_one=not self._readable
        )
        if read.slice is None:
            return
        self._readable.append(_Readable(led, offset, read.slice))
        self._size += read.slice.size
        if read.first_batch_offset < partition.log.active.base_offset:
            # A read covers one segment. This one is closed: the rest comes with the next fetch.
            self._responds_at_once = True

    # -- acquiring -------------------------------------------------------------------------------------------

    def _acquire(self) -> None:
        left = self._limits.acquire.max_records
        for led, offset, read in self._readable:
            if left <= 0:
                break
            tp = (led.key.topic_id, led.key.partition)
            try:
                self._results[tp] = result = self._acquire_from(led, offset, read, left)
            except StorageError as error:
                self._manager.storage_failed(error)
                self._fail(tp, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
                continue
            left -= sum(last - first + 1 for first, last, _ in result.acquired)

    def _acquire_from(
        self, led: LedSharePartition, offset: int, read: FileSlice, max_records: int
    ) -> FetchedSharePartition[FileSlice]:
        machine = led.machine
        assert machine is not None
        batches = scan(read, max(machine.end_offset, offset) + max_records)
        aborted = []
        if led.config.is_read_committed and batches.transactional:
            log = led.partition.log
            first, last = batches.ranges[0].first, batches.ranges[-1].last
            aborted = batches.aborted(log.aborted_transactions(first, last + 1))
        now_ms = self._manager.now_ms()
        rules: Sequence[DeliveryRule] = ()
        if led.config.has_delivery_rules and batches.ends:
            rules = self._rules(led, batches, offset, now_ms)
        acquired = machine.acquire(
            self._member,
            self._limits.acquire._replace(max_records=max_records),
            FetchedBatches(offset, batches.ranges, aborted, rules),
            now_ms,
        )
        self._manager.changed(led)
        if not acquired:
            return FetchedSharePartition()
        records = batches.bytes_of(acquired)
        return FetchedSharePartition(records=records, size=records.size, acquired=acquired)

    def _rules(
        self, led: LedSharePartition, batches: LogBatches, offset: int, now_ms: int
    ) -> Sequence[DeliveryRule]:
        decoded = led.decoded_rules
        asked = (batches.ranges[0].first, batches.ranges[-1].last, led.config)
        if decoded is None or (decoded.first, decoded.last, decoded.config) != asked:
            decoded = led.decoded_rules = decode_rules(batches, led.config)
        count = led.config.settings.max_record_locks
        return rules_from(decoded, offset, count, now_ms, self._manager.wall_ms())
