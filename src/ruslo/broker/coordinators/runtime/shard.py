"""Runs the machine of one partition of a coordinator's topic.

For each event:

1. The machine decides. Its records join the batch that is being collected and, unless the kind replays them
   when they are committed, are replayed at once: the next decision builds on this one.
2. The batch is appended: at once, at the end of the event-loop iteration or after the linger time.
3. When the high watermark has passed the batch, the replies are sent and the machine handles
   ``AppendCommitted``. What it decides then is another event.

With one replica and no linger all of that happens within the call that handles the request.

An append that fails leaves a machine that has replayed its records ahead of its log. Such a shard fails every
waiting request and is loaded again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias

from ruslo.broker.coordinators.runtime.kind import (
    ADAPTIVE_LINGER_MS,
    NO_LINGER_MS,
    CoordinatorKind,
    MachineT,
)
from ruslo.broker.coordinators.runtime.pending_request import PendingRequest
from ruslo.broker.coordinators.runtime.record_codec import EncodedRecord, encode_batch, size_of
from ruslo.broker.partitions.ack_wait import AckResult, Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, for_each
from ruslo.machines.machine import (
    AppendCommitted,
    AppendFailed,
    Instant,
    Loaded,
    Outcome,
    Reply,
    Requested,
    TimerFired,
    Unloaded,
)
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, RusloError, StorageError
from ruslo.protocol.message import Message
from ruslo.records.batch import HEADER_SIZE, BatchHeader, read_header

logger = logging.getLogger(__name__)

_Outcome: TypeAlias = Outcome[Any, Message | KafkaError, Any]
_Reply: TypeAlias = Reply[Message | KafkaError]


@dataclass(slots=True, eq=False)
class _Batch:
    """Records that are being collected or not committed yet, and the outcomes that wait for them."""

    records: list[EncodedRecord] = field(default_factory=list)
    size: int = HEADER_SIZE
    outcomes: list[_Outcome] = field(default_factory=list)
    base_offset: int = -1
    end_offset: int = -1
    """The batch is committed when the high watermark reaches this offset; -1: it is not appended yet."""


@dataclass(eq=False, repr=False)
class CoordinatorShard(Generic[MachineT]):
    _kind: CoordinatorKind[MachineT]
    partition: Partition
    _clock: Clock
    _scheduler: Scheduler
    _: KW_ONLY
    on_storage_error: Callable[[StorageError], None]
    reload: Callable[[CoordinatorShard[MachineT]], None]
    """Loads a shard again that has closed itself because its log could not be written."""

    def __post_init__(self) -> None:
        self.machine = self._kind.new_machine()
        self.active = False
        """Whether the shard is loaded and serves requests."""
        self.closed = False
        self.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        """The error of requests while the shard is not active."""
        self._leader_epoch = self.partition.leader_epoch
        self._events: deque[Any] = deque()
        """Events to handle, in order; an effect may add one before the current event is finished."""
        self._is_running = False
        self._now = Instant(0, 0)
        self._collecting = _Batch()
        self._flush_handle: asyncio.Handle | None = None
        self._uncommitted: dict[_Batch, None] = {}
        """Appended batches whose end the high watermark has not reached, in the order of the log."""
        self._timer = DeadlineTimer(self._clock, self.machine.deadline_ms, self._start_timer_event)

    def serves(self, partition: Partition) -> bool:
        """Whether this is the shard of the partition in its current leader epoch."""
        return self.partition is partition and (
            not self._kind.reloads_in_new_epoch or self._leader_epoch == partition.leader_epoch
        )

    def replay_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[None]:
        """Replay a batch while the log is loaded; yields after each record."""
        for offset, record in self._kind.codec.decode(header, batch):
            self.machine.replay(record, offset)
            yield

    def activate(self) -> None:
        """Serve requests: the log is replayed, and all of it is committed."""
        self.active = True
        self.handle(Loaded(self._leader_epoch))

    # -- events ----------------------------------------------------------------------------------------------

    def submit(
        self, request: Message, api_version: int, context: object
    ) -> Message | asyncio.Future[Message]:
        """Handle a request. Returns the response itself if it does not have to wait."""
        pending = PendingRequest(request, api_version, self._kind.error_response)
        self._run(Requested(pending, request, context))
        return pending.promise

    def handle(self, event: object) -> None:
        if not self.closed:
            self._run(event)

    def append_marker(self, batch: bytearray, transaction_version: int) -> Appended:
        """Append a transaction marker and replay it. Raises as ``Partition.append_marker`` does."""
        self._flush()
        if self.closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        appended = self.partition.append_marker(batch, self._clock.now_ms(), transaction_version)
        for _, record in self._kind.codec.decode(read_header(batch), memoryview(batch)):
            self.machine.replay(record, appended.base_offset)
        return appended

    def close(self) -> None:
        """Append what is collected, fail waiting requests, and handle no further event."""
        if self.closed:
            return
        self.closed = True
        was_active, self.active = self.active, False
        self.error = ErrorCode.NOT_COORDINATOR
        self._timer.stop()
        if was_active:
            self._flush()
            for batch in (*self._uncommitted, self._collecting):
                self._fail(batch.outcomes, ErrorCode.NOT_COORDINATOR)
            self._uncommitted.clear()
            self._collecting = _Batch()
            self._release(self.machine.handle(Unloaded(), self._now).replies)

    def _run(self, event: object) -> None:
        self._events.append(event)
        if self._is_running:
            return
        self._is_running = True
        self._read_clocks()
        try:
            while self._events:
                event = self._events.popleft()
                try:
                    self._execute(self.machine.handle(event, self._now))
                except Exception as error:
                    self._report(event, error)
        finally:
            self._is_running = False
            self._timer.arm()

    def _report(self, event: object, error: Exception) -> None:
        """Handle a defect of ours: it must affect only its request."""
        if isinstance(event, Loaded):
            raise error
        if isinstance(event, Requested):
            assert isinstance(event.token, PendingRequest)
            event.token.fail(error)
        else:
            logger.error("%s could not handle %s", self, type(event).__name__, exc_info=error)

    def _read_clocks(self) -> None:
        self._now = Instant(self._clock.monotonic_ms(), self._clock.now_ms())

    def _start_timer_event(self) -> None:
        # Timers of many shards may fire together: sessions that expire after a network fault, for example.
        self._scheduler.run(self._timer_event(), priority=Priority.REQUEST, name="a coordinator's timer")

    def _timer_event(self) -> Steps[None]:
        self.handle(TimerFired())
        yield

    # -- outcomes --------------------------------------------------------------------------------------------

    def _execute(self, outcome: _Outcome) -> None:
        if outcome.records:
            self._append(outcome)
        elif outcome.linearizable and outcome.replies:
            self._release_when_committed(outcome)
        else:
            self._release(outcome.replies)
        for effect in outcome.effects:
            self._kind.execute(self, effect)

    def _append(self, outcome: _Outcome) -> None:
        kind, records = self._kind, list(outcome.records)
        encoded = [kind.codec.encode(record) for record in records]
        size = size_of(encoded)
        limit = self.partition.log.config.max_message_bytes
        if size + HEADER_SIZE > limit:
            logger.error(
                "%s: a change of %d records and %d bytes does not fit into one batch. Raise the topic's "
                "max.message.bytes (now %d).",
                self,
                len(records),
                size,
                limit,
            )
            self._run(AppendFailed([outcome], ErrorCode.MESSAGE_TOO_LARGE))
            return
        producer = kind.codec.producer_of(records[0])
        if producer is not None or self._collecting.size + size > limit:
            self._flush()
        if self.closed:
            self._run(AppendFailed([outcome], ErrorCode.NOT_COORDINATOR))
            return
        batch = self._collecting
        if not kind.replays_when_committed:
            offset = self.partition.log.end_offset + len(batch.records)
            try:
                self._replay(records, offset)
            except Exception as error:
                # A record that the machine cannot replay must not reach the log: every load would fail.
                self._break([outcome], ErrorCode.UNKNOWN_SERVER_ERROR, error)
                return
        batch.records += encoded
        batch.size += size
        batch.outcomes.append(outcome)
        if producer is not None or kind.linger_ms == NO_LINGER_MS:
            self._flush(producer)
        elif self._flush_handle is None:
            loop = asyncio.get_running_loop()
            if kind.linger_ms == ADAPTIVE_LINGER_MS:
                self._flush_handle = loop.call_soon(self._flush)
            else:
                self._flush_handle = loop.call_later(kind.linger_ms / 1000, self._flush)

    def _release_when_committed(self, outcome: _Outcome) -> None:
        """The replies depend on the whole log: also on markers, and on batches that have timed out."""
        if self._collecting.records:
            self._collecting.outcomes.append(outcome)
            return
        append = self.partition.empty_append()
        last = next(reversed(self._uncommitted), None)
        if append.committed:
            self._release(outcome.replies)
        elif last is not None and last.end_offset == append.end_offset:
            last.outcomes.append(outcome)
        else:
            self._wait_for(_Batch(outcomes=[outcome]), append)

    def _release(self, replies: Sequence[_Reply]) -> None:
        if len(replies) == 1:
            _respond(replies[0])
        elif replies:
            # A rebalance may respond to a thousand members at the same time.
            steps = for_each(replies, _respond)
            self._scheduler.run(steps, priority=Priority.REQUEST, name="responses of a coordinator")

    # -- appends ---------------------------------------------------------------------------------------------

    def _flush(self, producer: tuple[int, int] | None = None) -> None:
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        batch = self._collecting
        if not batch.records:
            return
        self._collecting = _Batch()
        now_ms = self._clock.now_ms()
        data = encode_batch(
            batch.records,
            now_ms,
            compression=self._kind.compression,
            base_sequence=self._kind.base_sequence,
            producer=producer,
        )
        try:
            appended = self.partition.append_records(data, now_ms)
        except KafkaError as error:
            self._append_failed(batch, error.code, error)
        except StorageError as error:
            self.on_storage_error(error)
            self._append_failed(batch, ErrorCode.KAFKA_STORAGE_ERROR, error)
        else:
            self._wait_for(batch, appended)

    def _wait_for(self, batch: _Batch, appended: Appended) -> None:
        batch.base_offset, batch.end_offset = appended.base_offset, appended.end_offset
        if appended.committed:
            self._on_committed(batch)
        else:
            self._uncommitted[batch] = None
            appended.when_committed(self._kind.commit_timeout_ms, partial(self._on_ack, batch))

    def _on_ack(self, batch: _Batch, result: AckResult) -> None:
        """The batch is committed, or it is unknown whether it will be."""
        if batch not in self._uncommitted:
            return
        del self._uncommitted[batch]
        if result is AckResult.ACKED:
            self._on_committed(batch)
        else:
            self._run(AppendFailed(batch.outcomes, result.value))

    def _on_committed(self, batch: _Batch) -> None:
        offset = batch.base_offset
        for outcome in batch.outcomes:
            if self._kind.replays_when_committed:
                offset = self._replay(outcome.records, offset)
            self._release(outcome.replies)
        self._run(AppendCommitted(batch.outcomes))

    def _replay(self, records: Iterable[Any], offset: int) -> int:
        for record in records:
            self.machine.replay(record, offset)
            offset += 1
        return offset

    def _append_failed(self, batch: _Batch, code: ErrorCode, error: Exception) -> None:
        if self._kind.replays_when_committed:
            logger.error("%s could not be written: %s", self, error)
            self._run(AppendFailed(batch.outcomes, code))
        else:
            self._break(batch.outcomes, code, error)

    def _break(self, outcomes: list[_Outcome], code: ErrorCode, error: Exception) -> None:
        """The machine is ahead of its log: fail waiting requests and load the log again."""
        logger.error(
            "%s: a change failed, its %s are loaded again: %s",
            self,
            self._kind.content,
            error,
            exc_info=None if isinstance(error, RusloError) else error,
        )
        self._fail(outcomes, code)
        if not self.closed:
            self.close()
            self.reload(self)

    def _fail(self, outcomes: list[_Outcome], code: ErrorCode) -> None:
        self._read_clocks()
        if outcomes:
            failed = self.machine.handle(AppendFailed(outcomes, code), self._now)
            assert not failed.records, "a failed append is not replaced by another one"
            self._release(failed.replies)

    def __str__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"


def _respond(reply: _Reply) -> None:
    pending = reply.token
    assert isinstance(pending, PendingRequest)
    pending.respond(reply.message)
