"""Copies undeliverable records to the dead-letter topics of their groups, then archives them (KIP-1191).

The state ARCHIVING is persisted before a record is copied, and ARCHIVED afterwards. A leader that loads the
state between the two copies the record again: there is at least one dead letter for each record. A record
that cannot be copied is archived as well, because it must not hold the start offset for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ruslo.broker.counters.share_counters import ShareCounters
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.broker.scheduling.scheduler import Priority, Scheduler
from ruslo.broker.share_partitions.dead_letter_topic import DeadLetterTopics
from ruslo.broker.share_partitions.dead_letters import (
    LIMIT_REACHED,
    REJECTED,
    Undeliverable,
    batches,
    contents,
    letters,
)
from ruslo.broker.share_partitions.led_partition import LedSharePartition, Written
from ruslo.machines.share_partition.acknowledgements import runs_of
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcknowledgementBatch, OffsetRange, StateBatch, StateWrite
from ruslo.model.clock import Clock
from ruslo.model.errors import KafkaError, StorageError

logger = logging.getLogger(__name__)

SLICE_RECORDS = 500
"""Records that are copied before their state is persisted."""
COPIES = 4
"""Share-partitions of a broker that copy at the same time; each holds what it has read."""
ATTEMPTS = 5
BACKOFF_MS = 1_000
BACKOFF_MAX_MS = 30_000


@dataclass(eq=False)
class DeadLetterCopier:
    _topics: DeadLetterTopics
    _counters: ShareCounters
    _scheduler: Scheduler
    _clock: Clock
    _submit: Callable[[LedSharePartition, StateWrite], Written]
    _on_idle: Callable[[LedSharePartition], None]
    """Called when a share-partition has nothing to copy any more."""
    _storage_failed: Callable[[StorageError], None]
    _reported: dict[str, str] = field(default_factory=dict)
    """The last reason for which records of a group could not be copied."""
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(COPIES))

    async def stop(self) -> None:
        await self._tasks.stop()

    def wake(self, led: LedSharePartition) -> None:
        """Copy the undeliverable records of a share-partition, whose state ARCHIVING is persisted."""
        if not led.is_copying and led.machine is not None and led.machine.undeliverable():
            led.is_copying = True
            self._tasks.start(self._copy(led))

    def note_rejections(self, led: LedSharePartition, acknowledged: Iterable[AcknowledgementBatch]) -> None:
        """Remember the cause of records that a member has just rejected."""
        assert led.machine is not None
        for batch in acknowledged:
            if AcknowledgeType.REJECT in batch.types:
                for run in runs_of(batch, led.machine.start_offset):
                    if run.type is AcknowledgeType.REJECT:
                        led.rejected.update(range(run.first, run.last + 1))

    async def _copy(self, led: LedSharePartition) -> None:
        try:
            async with self._turns:
                while (slice_ := _next_slice(led)) and led.failure is None:
                    for each in slice_:
                        await self._copy_range(led, each)
                    await self._archive(led, [each.offsets for each in slice_])
        except StorageError as error:
            self._storage_failed(error)
        except Exception:
            logger.exception("copying dead letters of %s failed", led)
        finally:
            led.is_copying = False
        if led.failure is None:
            self._on_idle(led)

    async def _archive(self, led: LedSharePartition, ranges: list[OffsetRange]) -> None:
        """Archive what is copied. A share-partition that cannot is replaced by another one in the end."""
        while led.failure is None and led.machine is not None:
            write = led.machine.archive(ranges)
            if write is None or await self._submit(led, write) is None:
                break
            await asyncio.sleep(BACKOFF_MS / 1000)
        for first, last in ranges:
            led.rejected.difference_update(range(first, last + 1))

    async def _copy_range(self, led: LedSharePartition, undeliverable: Undeliverable) -> None:
        offset, last = undeliverable.offsets
        while offset <= last and led.failure is None:
            found = await self._scheduler.run(
                contents(led.partition, offset, last), priority=Priority.BACKGROUND, name="dead letters"
            )
            config = led.config
            listed = letters(
                led.partition,
                led.key.group_id,
                undeliverable._replace(offsets=OffsetRange(offset, last)),
                found,
                copies_records=config.copies_records,
                now_ms=self._clock.now_ms(),
            )
            max_bytes = self._topics.max_bytes(config.dead_letter_topic)
            for count, batch in batches(listed, max_bytes):
                await self._send(led, count, batch)
            offset = found.next_offset

    async def _send(self, led: LedSharePartition, count: int, batch: bytearray) -> None:
        group = led.key.group_id
        backoff_ms = BACKOFF_MS
        for attempt in range(1, ATTEMPTS + 1):
            if led.failure is not None:
                return
            topic = led.config.dead_letter_topic
            try:
                await self._topics.ready(topic)
                self._counters.dead_letter_requests[group] += 1
                await self._topics.append(topic, led.key.partition, batch)
            except KafkaError as error:
                if not error.code.retriable or attempt == ATTEMPTS:
                    self._lost(led, count, error)
                    return
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)
            else:
                self._counters.dead_letters[group] += count
                self._reported.pop(group, None)
                return

    def _lost(self, led: LedSharePartition, count: int, error: KafkaError) -> None:
        group = led.key.group_id
        self._counters.lost_dead_letters[group] += count
        reason = f"{error.code.name}: {error.message}"
        if self._reported.get(group) != reason:
            self._reported[group] = reason
            logger.error(
                "Undeliverable records of share group %s are archived without dead letters, first in %s: %s",
                group,
                led.partition,
                reason,
            )


def _next_slice(led: LedSharePartition) -> list[Undeliverable]:
    """The first undeliverable records, by cause."""
    machine = led.machine
    found: list[Undeliverable] = []
    left = SLICE_RECORDS
    for batch in () if machine is None else machine.undeliverable():
        for each in _by_cause(led, batch._replace(last=min(batch.last, batch.first + left - 1))):
            found.append(each)
            left -= each.offsets.last - each.offsets.first + 1
        if left <= 0:
            break
    return found


def _by_cause(led: LedSharePartition, batch: StateBatch) -> Iterable[Undeliverable]:
    """The cause is not persisted: after a failover it follows from the delivery count."""
    is_spent = batch.delivery_count >= led.config.settings.delivery_limit

    def cause(offset: int) -> bytes:
        return REJECTED if not is_spent or offset in led.rejected else LIMIT_REACHED

    first = batch.first
    for offset in range(batch.first, batch.last + 1):
        if offset == batch.last or cause(offset + 1) != cause(offset):
            yield Undeliverable(OffsetRange(first, offset), batch.delivery_count, cause(offset))
            first = offset + 1
