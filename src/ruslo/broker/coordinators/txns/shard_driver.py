"""Runs the machine of one partition of ``__transaction_state``.

A turn: the machine decides, its records are appended as one batch, and when the high watermark has passed it
the answers go out and the machine hears of it; what follows from that (markers, the record that ends the
transaction) is the next turn. With one replica all of it happens in one call, and a transaction is complete
before its client has read that it is decided.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from ruslo.broker.coordinators.runtime.record_codec import decode_records
from ruslo.broker.coordinators.runtime.shard_timer import ShardTimer
from ruslo.broker.coordinators.runtime.waiter import Waiter
from ruslo.broker.partitions.ack_wait import AckResult
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.machines.txns.decision import Decision, TxnReply
from ruslo.machines.txns.events import (
    Loaded,
    MarkersAnswered,
    MarkerSend,
    ProducerIdGiven,
    Requested,
    RequestInfo,
    TimerFired,
    TxnEvent,
    Unloaded,
)
from ruslo.machines.txns.marker_requests import MarkerCodes, codes_of
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.refusals import refusal
from ruslo.machines.txns.shard import TxnShard
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.coordinator_records import TRANSACTION_RECORDS
from ruslo.protocol.message import Message
from ruslo.protocol.messages.transaction_log_key import TransactionLogKey
from ruslo.protocol.messages.transaction_log_value import TransactionLogValue
from ruslo.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from ruslo.records.batch import BatchHeader
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

logger = logging.getLogger(__name__)

SendMarkers: TypeAlias = Callable[
    [MarkerSend], MarkerCodes | asyncio.Future[MarkerCodes] | asyncio.Future[Message]
]
"""What became of them; the Message is WriteTxnMarkersResponse, of another node."""


class TxnShardDriver:
    def __init__(
        self,
        shard: TxnShard,
        partition: Partition,
        clock: Clock,
        scheduler: Scheduler,
        *,
        commit_timeout_ms: int,
        send_markers: SendMarkers,
        get_producer_id: Callable[[Callable[[int | None], None]], None],
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        self.shard = shard
        self.partition = partition
        self.active = False
        """Loaded; until then the coordinator answers for it."""
        self.closed = False
        self.refusal: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        """Why it is not active."""
        self._epoch = partition.leader_epoch
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._send_markers = send_markers
        self._get_producer_id = get_producer_id
        self._on_storage_error = on_storage_error
        self._steps: deque[Callable[[], Decision]] = deque()
        """What happens next, in order: a step may lead to others before it is carried out."""
        self._in_turn = False
        self._now_ms = self._wall_ms = 0
        """Of the turn under way, by both clocks: it is over before they move far."""
        self._uncommitted: dict[int, Decision] = {}
        """Decisions by the end offset of their batch, which the high watermark has not reached yet."""
        self._timer = ShardTimer(
            partition, clock, scheduler, shard.deadline_ms, lambda: self.run(TimerFired())
        )

    def is_of(self, partition: Partition) -> bool:
        """A new leader epoch is a new coordinator, also on the same node: its markers must fence the old."""
        return self.partition is partition and self._epoch == partition.leader_epoch

    def replay_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[None]:
        """While the log is loaded."""
        if header.is_control:
            return
        for _, record in decode_records(batch, TRANSACTION_RECORDS, _record):
            self.shard.replay(record)
            yield

    def activate(self) -> None:
        """The log is replayed: clients are served, and what was decided is brought to its end."""
        self.active = True
        self.run(Loaded(self._epoch))

    # -- events ----------------------------------------------------------------------------------------------

    def submit(self, request: Message, info: RequestInfo) -> Message | asyncio.Future[Message]:
        """The answer itself if nothing has to be waited for."""
        waiter = Waiter(request, info.api_version, refusal)
        self._take(partial(self._request, waiter, request, info))
        return waiter.promise

    def _request(self, waiter: Waiter, request: Message, info: RequestInfo) -> Decision:
        try:
            return self._handle(Requested(waiter, request, info))
        except Exception as error:
            waiter.fail(error)
            return Decision()

    def run(self, event: TxnEvent) -> None:
        if not self.closed:
            self._take(partial(self._handle, event))

    def close(self) -> None:
        """Answer whoever waits, decide nothing any more."""
        if self.closed:
            return
        self.closed = True
        was_active, self.active = self.active, False
        self.refusal = ErrorCode.NOT_COORDINATOR
        self._timer.stop()
        if was_active:
            self._look_at_clocks()
            for outcome in self._uncommitted.values():
                _release(self._failed(outcome, ErrorCode.NOT_COORDINATOR).replies)
            self._uncommitted.clear()
            _release(self._handle(Unloaded()).replies)

    def _handle(self, event: TxnEvent) -> Decision:
        return self.shard.handle(event, self._now_ms, self._wall_ms)

    def _look_at_clocks(self) -> None:
        self._now_ms, self._wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()

    def _take(self, step: Callable[[], Decision]) -> None:
        steps = self._steps
        steps.append(step)
        if self._in_turn:
            return
        self._in_turn = True
        self._look_at_clocks()
        try:
            while steps:
                self._carry_out(steps.popleft()())
        finally:
            self._in_turn = False
            self._timer.arm()

    # -- what the machine decided ----------------------------------------------------------------------------

    def _carry_out(self, outcome: Decision) -> None:
        if outcome.transitions:
            self._append(outcome)
        else:
            _release(outcome.replies)
        for send in outcome.sends:
            self._send(send)
        for ask in outcome.asks:
            self._get_producer_id(partial(self._give_producer_id, ask.ask_id))
        for transactional_id in outcome.stopped:
            logger.error(
                "the end of transaction %r is decided, but a partition that knows a newer producer or "
                "coordinator refuses its marker: it stays undone until %s-%d has another leader",
                transactional_id,
                self.partition.topic,
                self.partition.index,
            )

    def _give_producer_id(self, ask_id: int, producer_id: int | None) -> None:
        self.run(ProducerIdGiven(ask_id, producer_id))

    def _send(self, send: MarkerSend) -> None:
        codes = self._send_markers(send)
        if isinstance(codes, asyncio.Future):
            codes.add_done_callback(lambda done: self.run(_answered(send, done)))
        else:
            self.run(MarkersAnswered(send.send_id, codes))

    # -- writing ---------------------------------------------------------------------------------------------

    def _append(self, outcome: Decision) -> None:
        now_ms = self._wall_ms
        data = build_batch([Record(at, now_ms, *each.record) for at, each in enumerate(outcome.transitions)])
        try:
            appended = self.partition.append_records(data, now_ms)
        except KafkaError as error:
            self._could_not_write(outcome, error.code, error)
        except StorageError as error:
            self._on_storage_error(error)
            self._could_not_write(outcome, ErrorCode.KAFKA_STORAGE_ERROR, error)
        else:
            end_offset = appended.end_offset
            self._uncommitted[end_offset] = outcome
            appended.when_committed(self._commit_timeout_ms, partial(self._decided, end_offset))

    def _could_not_write(self, outcome: Decision, code: ErrorCode, error: Exception) -> None:
        logger.error("%s-%d could not be written: %s", self.partition.topic, self.partition.index, error)
        self._steps.append(lambda: self._failed(outcome, code))

    def _decided(self, end_offset: int, result: AckResult) -> None:
        """The batch is committed, or is not known to be."""
        outcome = self._uncommitted.pop(end_offset, None)
        if outcome is None:
            return
        if result is AckResult.ACKED:
            self._take(partial(self._committed, outcome))
        else:
            self._take(partial(self._failed, outcome, result.code))

    def _committed(self, outcome: Decision) -> Decision:
        _release(outcome.replies)
        return self.shard.append_committed((outcome,), self._now_ms, self._wall_ms)

    def _failed(self, outcome: Decision, code: ErrorCode) -> Decision:
        return self.shard.append_failed(outcome, code, self._now_ms, self._wall_ms)


def _record(key: Message, value: Message | None, version: int) -> TxnRecord:
    assert isinstance(key, TransactionLogKey)
    assert value is None or isinstance(value, TransactionLogValue)
    return TxnRecord(key, value, version)


def _answered(
    send: MarkerSend, done: asyncio.Future[MarkerCodes] | asyncio.Future[Message]
) -> MarkersAnswered:
    """Whatever went wrong on the way: nobody knows what became of the markers."""
    if done.cancelled() or done.exception() is not None:
        return MarkersAnswered(send.send_id, None)
    answer = done.result()
    if isinstance(answer, Message):
        assert isinstance(answer, WriteTxnMarkersResponse)
        answer = codes_of(answer)
    return MarkersAnswered(send.send_id, answer)


def _release(replies: Iterable[TxnReply]) -> None:
    for reply in replies:
        waiter = reply.token
        assert isinstance(waiter, Waiter)
        waiter.answer(reply.message)
