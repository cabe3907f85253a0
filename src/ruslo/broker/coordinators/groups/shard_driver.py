"""Runs the machine of one partition of ``__consumer_offsets``.

A turn: the machine decides, its records are replayed at once and gathered into a batch, the batch is appended
when the event loop has handled what came in with it, and the answers go out when the high watermark has
passed the batch. So twenty thousand commits a second are a few hundred writes, and what the machine sees is
always its own newest decision.

If the batch cannot be appended the machine is ahead of its log. Nothing rewinds it: everybody who waits is
answered with an error, and the shard is loaded again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from ruslo.broker.coordinators.groups.batch import encode_batch
from ruslo.broker.coordinators.runtime.record_codec import (
    EncodedRecord,
    decode_records,
    encode_record,
    size_of,
)
from ruslo.broker.coordinators.runtime.shard_timer import ShardTimer
from ruslo.broker.coordinators.runtime.waiter import Waiter
from ruslo.broker.partitions.ack_wait import AckResult, Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, for_each
from ruslo.machines.groups.decision import GroupOutcome, GroupReply, Producer
from ruslo.machines.groups.events import Ask, GroupEvent, Loaded, Requested, RequestInfo, TimerFired, Unloaded
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.refusals import refusal
from ruslo.machines.groups.shard import GroupShard
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, RusloError, StorageError
from ruslo.protocol.coordinator_records import GROUP_RECORDS
from ruslo.protocol.message import Message
from ruslo.records.batch import HEADER_SIZE, NO_PRODUCER_ID, BatchHeader
from ruslo.storage.producer_replay import read_marker

logger = logging.getLogger(__name__)

ADAPTIVE_LINGER_MS = -1
"""Gather until the loop has handled what is at hand; no write waits for later ones."""


@dataclass(frozen=True, slots=True)
class WriteSettings:
    commit_timeout_ms: int
    codec: int
    linger_ms: int


@dataclass(slots=True, eq=False)
class _Batch:
    """Records on their way into the log, and the outcomes that wait for them."""

    records: list[EncodedRecord] = field(default_factory=list)
    size: int = HEADER_SIZE
    outcomes: list[GroupOutcome] = field(default_factory=list)
    end_offset: int = -1
    """Set once it is written: it is safe when the high watermark has reached this."""


class ShardDriver:
    def __init__(
        self,
        shard: GroupShard,
        partition: Partition,
        clock: Clock,
        settings: WriteSettings,
        scheduler: Scheduler,
        *,
        on_ask: Callable[[ShardDriver, Ask], None],
        on_storage_error: Callable[[StorageError], None],
        on_broken: Callable[[ShardDriver], None],
    ) -> None:
        self.shard = shard
        self.partition = partition
        self.active = False
        """Loaded; until then the coordinator answers for it."""
        self.closed = False
        self.refusal: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        """Why it is not active."""
        self._clock = clock
        self._settings = settings
        self._scheduler = scheduler
        self._on_ask = on_ask
        self._on_storage_error = on_storage_error
        self._on_broken = on_broken
        self._gathering = _Batch()
        self._flush_handle: asyncio.Handle | None = None
        self._uncommitted: deque[_Batch] = deque()
        """Appended batches whose end the high watermark has not reached yet."""
        self._timer = ShardTimer(
            partition, clock, scheduler, shard.deadline_ms, lambda: self.run(TimerFired())
        )

    def is_of(self, partition: Partition) -> bool:
        return self.partition is partition

    def replay_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[None]:
        """While the log is loaded."""
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                self.shard.replay_marker(
                    marker.producer_id, committed=marker.committed, offset=header.base_offset
                )
            return
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for offset, record in decode_records(batch, GROUP_RECORDS, GroupRecord):
            self.shard.replay(record, offset, producer_id)
            yield

    def activate(self) -> None:
        """The log is replayed: sessions begin, clients are served."""
        self.active = True
        self.run(Loaded())

    # -- events ----------------------------------------------------------------------------------------------

    def submit(self, request: Message, info: RequestInfo) -> asyncio.Future[Message]:
        waiter = Waiter(request, info.api_version, refusal)
        try:
            self.run(Requested(waiter, request, info))
        except Exception as error:
            waiter.fail(error)
        return waiter.future

    def run(self, event: GroupEvent) -> None:
        outcome = self.shard.handle(event, self._clock.monotonic_ms(), self._clock.now_ms())
        self._carry_out(outcome)
        self._timer.arm()

    def append_marker(self, batch: bytearray, transaction_version: int) -> Appended:
        """A transaction that may have committed offsets here has ended. Raises as ``Partition.append``."""
        self._flush()
        if self.closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        marker = read_marker(batch)
        assert marker is not None, "only markers are handed to this"
        appended = self.partition.append_marker(batch, self._clock.now_ms(), transaction_version)
        self.shard.replay_marker(marker.producer_id, committed=marker.committed, offset=appended.base_offset)
        return appended

    def close(self) -> None:
        """Write what is gathered, answer whoever waits, decide nothing any more."""
        if self.closed:
            return
        self.closed = True
        was_active, self.active = self.active, False
        self.refusal = ErrorCode.NOT_COORDINATOR
        self._timer.stop()
        if was_active:
            self._flush()
            for batch in (*self._uncommitted, self._gathering):
                self._give_up(batch.outcomes, ErrorCode.NOT_COORDINATOR)
            self._uncommitted.clear()
            self._gathering = _Batch()
            unloaded = self.shard.handle(Unloaded(), self._clock.monotonic_ms(), self._clock.now_ms())
            self._release(unloaded.replies)

    # -- what the machine decided ----------------------------------------------------------------------------

    def _carry_out(self, outcome: GroupOutcome) -> None:
        if outcome.append is None:
            self._release(outcome.replies)
        elif outcome.append.records:
            self._add(outcome)
        elif self._gathering.records:
            self._gathering.outcomes.append(outcome)
        else:
            self._release_when_committed(outcome)
        for ask in outcome.asks:
            self._on_ask(self, ask)

    def _release_when_committed(self, outcome: GroupOutcome) -> None:
        """It rests on all that is in the log: markers too, and what was given up because it took too long."""
        append = self.partition.empty_append()
        if append.committed:
            self._release(outcome.replies)
        elif self._uncommitted and self._uncommitted[-1].end_offset == append.end_offset:
            self._uncommitted[-1].outcomes.append(outcome)
        else:
            self._wait_for(_Batch(outcomes=[outcome]), append)

    def _add(self, outcome: GroupOutcome) -> None:
        assert outcome.append is not None
        records = outcome.append.records
        encoded = [encode_record(record) for record in records]
        size = size_of(encoded)
        limit = self.partition.log.config.max_message_bytes
        if size + HEADER_SIZE > limit:
            logger.error(
                "a change of %d records and %d bytes does not fit into one batch of %s-%d: raise the topic's "
                "max.message.bytes (now %d)",
                len(records),
                size,
                self.partition.topic,
                self.partition.index,
                limit,
            )
            self._give_up([outcome], ErrorCode.MESSAGE_TOO_LARGE)
            return
        if outcome.producer is not None or self._gathering.size + size > limit:
            self._flush()
        if self.closed:
            self._give_up([outcome], ErrorCode.NOT_COORDINATOR)
            return
        batch = self._gathering
        offset = self.partition.log.end_offset + len(batch.records)
        producer_id = NO_PRODUCER_ID if outcome.producer is None else outcome.producer.id
        try:
            for at, record in enumerate(records):
                self.shard.replay(record, offset + at, producer_id)
        except Exception as error:
            # What the machine itself cannot take in must not reach the log, where it would stop every load.
            self._break([outcome], ErrorCode.UNKNOWN_SERVER_ERROR, error)
            return
        batch.records += encoded
        batch.size += size
        batch.outcomes.append(outcome)
        if outcome.producer is not None:
            self._flush(outcome.producer)
        elif self._settings.linger_ms == 0:
            self._flush()
        elif self._flush_handle is None:
            loop = asyncio.get_running_loop()
            if self._settings.linger_ms == ADAPTIVE_LINGER_MS:
                self._flush_handle = loop.call_soon(self._flush)
            else:
                self._flush_handle = loop.call_later(self._settings.linger_ms / 1000, self._flush)

    # -- writing ---------------------------------------------------------------------------------------------

    def _flush(self, producer: Producer | None = None) -> None:
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        batch = self._gathering
        if not batch.records:
            return
        self._gathering = _Batch()
        now_ms = self._clock.now_ms()
        data = encode_batch(batch.records, now_ms, self._settings.codec, producer)
        try:
            appended = self.partition.append_records(data, now_ms)
        except KafkaError as error:
            self._break(batch.outcomes, error.code, error)
            return
        except StorageError as error:
            self._on_storage_error(error)
            self._break(batch.outcomes, ErrorCode.KAFKA_STORAGE_ERROR, error)
            return
        batch.records = []
        self._wait_for(batch, appended)

    def _wait_for(self, batch: _Batch, append: Appended) -> None:
        batch.end_offset = append.end_offset
        self._uncommitted.append(batch)
        append.when_committed(self._settings.commit_timeout_ms, partial(self._decided, batch))

    def _decided(self, batch: _Batch, result: AckResult) -> None:
        """The batch is committed, or is not known to be."""
        if batch not in self._uncommitted:
            return
        self._uncommitted.remove(batch)
        if result is AckResult.ACKED:
            for outcome in batch.outcomes:
                self._release(outcome.replies)
        else:
            self._give_up(batch.outcomes, result.code)

    def _break(self, outcomes: Iterable[GroupOutcome], code: ErrorCode, error: Exception) -> None:
        """The machine and its log have parted: refuse what is under way and begin again from the log."""
        logger.error(
            "%s-%d could not be written, its groups are loaded again: %s",
            self.partition.topic,
            self.partition.index,
            error,
            exc_info=None if isinstance(error, RusloError) else error,
        )
        self._give_up(outcomes, code)
        if not self.closed:
            self.close()
            self._on_broken(self)

    def _give_up(self, outcomes: Iterable[GroupOutcome], code: ErrorCode) -> None:
        """Answer those whose change did not come about, or is not known to."""
        for outcome in outcomes:
            undone = self.shard.append_failed(outcome, code, self._clock.monotonic_ms(), self._clock.now_ms())
            self._release(undone.replies)

    def _release(self, replies: Sequence[GroupReply]) -> None:
        if len(replies) == 1:
            _respond(replies[0])
        elif replies:
            # A thousand members may be told of their next generation together.
            steps = for_each(replies, _respond)
            self._scheduler.run(steps, priority=Priority.REQUEST, name="responses to group members")


def _respond(reply: GroupReply) -> None:
    waiter = reply.token
    assert isinstance(waiter, Waiter)
    waiter.answer(reply.message)
