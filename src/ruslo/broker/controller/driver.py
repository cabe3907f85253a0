"""Runs the controller machine on this node: requests in, records to the metadata log, answers when committed.

The machine has an image of its own, besides the one that the node's broker reads (``drivers/metadata.py``).
The two differ by the records that are appended but not committed, and a broker must never act on those:
with several voters they may still be lost. Sharing one image would save some 150 bytes a partition, which
is not worth that. When leadership is lost with such records outstanding, the machine starts again from the
broker's image, which holds exactly what is committed.

A change of thousands of partitions is worked out, encoded, appended and replayed over several turns of the
event loop, so that others are served meanwhile; events that come in between wait until it is through.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, Protocol, cast

from ruslo.broker.metadata.loader import MetadataDriver
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
from ruslo.machines.controller.broker_image import FENCE
from ruslo.machines.controller.events import Activated, BrokerGone, Requested, TimerFired
from ruslo.machines.controller.machine import Answer, ControllerEvent, ControllerMachine
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import MAX_RECORDS_PER_REQUEST
from ruslo.machines.outcome import Reply
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.protocol.metadata_records import encode_metadata_record

logger = logging.getLogger(__name__)


class AppendableLog(Protocol):
    """The part of RaftDriver that the controller needs."""

    @property
    def end_offset(self) -> int: ...

    @property
    def kraft_version(self) -> int: ...

    def append(
        self, epoch: int, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None
    ) -> int: ...


RECORDS_PER_TURN = 300
"""Worked out, or encoded, before the event loop gets a turn; each takes some 10 µs, more when it is busy."""


class _Pending(NamedTuple):
    offset: int
    """Released when this one is committed."""
    replies: tuple[Reply[Hashable, Answer], ...]


class _LongChange(NamedTuple):
    turns: Iterator[None]
    """Each step does a turn's work."""
    replies: tuple[Reply[Hashable, Answer], ...]


class ControllerDriver:
    def __init__(
        self,
        machine: ControllerMachine,
        log: AppendableLog,
        metadata: MetadataDriver,
        *,
        node_id: int,
        clock: Clock,
    ) -> None:
        self._machine = machine
        self._log = log
        self._metadata = metadata
        self._node_id = node_id
        self._clock = clock
        self._epoch = -1
        self._active = False
        self._replayed = -1
        """Offset of the last record that the machine has taken in."""
        self._appended = -1
        """Offset of the last record of ours that listeners will be shown."""
        self.committed_offset = -1
        self._pending: deque[_Pending] = deque()
        self._long_change: _LongChange | None = None
        self._next_turn: asyncio.Handle | None = None
        self._waiting: deque[ControllerEvent] = deque()
        """What came during a long change."""
        self.suspect: Callable[[int, int], None] | None = None
        """Told of every broker that should be there, and its epoch, when this node becomes the controller:
        one of them may have died together with the controller before."""
        self._timer = DeadlineTimer(clock, machine.deadline_ms, lambda: self._run(TimerFired()))

    @property
    def is_active(self) -> bool:
        return self._active

    def submit(
        self, request: Message, context: RequestContext | None = None, *, timeout_ms: int = 0
    ) -> asyncio.Future[Message]:
        """Have the active controller decide; the answer comes once everything it rests on is committed.

        Raises KafkaError through the future: NOT_CONTROLLER when this node does not lead (any more), or
        REQUEST_TIMED_OUT after ``timeout_ms`` (0: never), in which case the change may still happen.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Message] = loop.create_future()
        if timeout_ms > 0:
            timer = loop.call_later(timeout_ms / 1000, _time_out, future, request, timeout_ms)
            future.add_done_callback(lambda _: timer.cancel())
        self._run(Requested(future, request, self._log.end_offset))
        return future

    def broker_gone(self, broker_id: int, broker_epoch: int) -> None:
        """The process of this registration is known to have ended."""
        if self._active:
            self._run(BrokerGone(broker_id, broker_epoch))

    def stop(self) -> None:
        self._lose_leadership()
        self._timer.stop()

    # -- what the metadata log tells -------------------------------------------------------------------------

    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        assert self._metadata.image.offset == offset - 1, "the metadata driver is told before"
        self._begin_with_committed()
        self.committed_offset = offset - 1
        yield

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        last = base_offset + len(records) - 1
        if last > self._replayed:
            self._machine.replay(base_offset, records)
            self._replayed = last
        self.committed_offset = max(self.committed_offset, last)
        while self._pending and self._pending[0].offset <= last:
            _release(self._pending.popleft().replies)

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        if leader_id != self._node_id:
            self._lose_leadership()
        elif epoch != self._epoch or not self._active:
            self._lose_leadership()
            logger.info("active controller of epoch %d", epoch)
            self._active, self._epoch = True, epoch
            self._run(Activated(self._log.kraft_version))
            if self._active and self.suspect is not None:
                for broker in self._machine.image.cluster.brokers.values():
                    if not broker.fenced and broker.id != self._node_id:
                        self.suspect(broker.id, broker.epoch)

    # -- the machine -----------------------------------------------------------------------------------------

    def _run(self, event: ControllerEvent) -> None:
        if self._long_change is not None:
            self._waiting.append(event)
        elif isinstance(event, Requested):
            try:
                self._handle(event)
            except Exception as error:
                _fail([event.token], error)
        else:
            try:
                self._handle(event)
            except KafkaError as error:
                if not self._active:
                    return  # Whoever is the active controller next sees to it.
                if isinstance(event, Activated):
                    raise
                # The log took nothing, its disk is full, say. The machine comes to it again in a while.
                logger.error("%s came to nothing: %s", type(event).__name__, error)
                self._timer.arm()

    def _handle(self, event: ControllerEvent) -> None:
        self._machine.state.kraft_version = self._log.kraft_version
        outcome = self._machine.handle(event, self._clock.monotonic_ms())
        if outcome.append is None:
            _release(outcome.replies)
        else:
            remaining = iter(outcome.append)
            records = list(islice(remaining, RECORDS_PER_TURN))
            if len(records) == RECORDS_PER_TURN:
                turns = self._append_in_turns(records, remaining)
                self._long_change = _LongChange(turns, outcome.replies)
                self._turn_later()
                return
            if records:
                base_offset = self._append(records)
                self._machine.replay(base_offset, [record for record, _ in records])
            self._release_when_committed(outcome.replies)
        self._timer.arm()

    def _append(self, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None) -> int:
        """Returns the offset of the first; the machine must replay them next.

        Raises KafkaError if the log takes nothing, or notices meanwhile that this node does not lead any
        more: then nobody knows what becomes of the records, and the machine must not count on them.
        """
        epoch = self._epoch
        last = self._log.append(epoch, records, values)
        if not self._active or self._epoch != epoch:
            raise _lost()
        self._replayed = last
        # The end mark of a transaction is never shown to listeners: the record before it stands for it.
        self._appended = last - 1 if isinstance(records[-1][0], EndTransactionRecord) else last
        for record, _ in records:
            if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced:
                logger.info(
                    "broker %d is %s", record.broker_id, "fenced" if record.fenced == FENCE else "unfenced"
                )
        return last - len(records) + 1

    def _release_when_committed(self, replies: tuple[Reply[Hashable, Answer], ...]) -> None:
        if self._appended <= self.committed_offset:
            _release(replies)
        elif replies:
            self._pending.append(_Pending(self._appended, replies))

    # -- long changes ----------------------------------------------------------------------------------------

    def _append_in_turns(
        self, records: list[VersionedRecord], remaining: Iterator[VersionedRecord]
    ) -> Iterator[None]:
        """``records``: the first of them; nothing is appended before all are there."""
        values: list[bytes] = []
        while len(values) < len(records):
            values += [encode_metadata_record(*each) for each in records[len(values) :]]
            yield
            records += islice(remaining, RECORDS_PER_TURN)
        # Only what a broker's coming or going brings can be longer than a batch; it need not be atomic.
        for start in range(0, len(records), MAX_RECORDS_PER_REQUEST):
            batch = records[start : start + MAX_RECORDS_PER_REQUEST]
            base_offset = self._append(batch, values[start : start + MAX_RECORDS_PER_REQUEST])
            yield
            replayed = (record for record, _ in batch)
            yield from self._machine.replay_in_turns(base_offset, replayed, RECORDS_PER_TURN)
            yield

    def _turn_later(self) -> None:
        self._next_turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        change = self._long_change
        assert change is not None, "a turn is cancelled with its change"
        try:
            next(change.turns)
        except StopIteration:
            self._release_when_committed(change.replies)
        except Exception as error:
            unforeseen = None if isinstance(error, KafkaError) else error
            if self._active or unforeseen is not None:
                logger.error("a change of many partitions was not made: %s", error, exc_info=unforeseen)
            _fail([reply.token for reply in change.replies], error)
        else:
            self._turn_later()
            return
        self._long_change = None
        self._timer.arm()
        waiting, self._waiting = self._waiting, deque()
        for event in waiting:
            self._run_late(event)

    def _run_late(self, event: ControllerEvent) -> None:
        """Behind another long change it waits again."""
        if isinstance(event, Requested):
            event = replace(event, next_offset=self._log.end_offset)
        self._run(event)

    def _drop_long_change(self) -> bool:
        """The leadership is gone in the midst of it; False if there is none."""
        change, self._long_change = self._long_change, None
        if change is None:
            return False
        if self._next_turn is not None:
            self._next_turn.cancel()
        waiting, self._waiting = self._waiting, deque()
        tokens = [event.token for event in waiting if isinstance(event, Requested)]
        _fail([*(reply.token for reply in change.replies), *tokens], _lost())
        return True

    def _lose_leadership(self) -> None:
        if not self._active:
            return
        self._active = False
        self._machine.deactivate()
        pending, self._pending = self._pending, deque()
        for each in pending:
            _fail([reply.token for reply in each.replies], _lost())
        # A change that was cut short may be committed and not replayed.
        if self._drop_long_change() or self._appended > self.committed_offset:
            self._begin_with_committed()
            self._appended = self._replayed

    def _begin_with_committed(self) -> None:
        image = self._metadata.image.copy()
        self._machine.load(image)
        self._replayed = image.offset


def _lost() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this node stopped being the active controller")


def _release(replies: tuple[Reply[Hashable, Answer], ...]) -> None:
    for reply in replies:
        future = cast("asyncio.Future[Message]", reply.token)
        if future.done():
            continue
        if isinstance(reply.message, KafkaError):
            future.set_exception(reply.message)
        else:
            future.set_result(reply.message)


def _fail(tokens: Iterable[Hashable], error: Exception) -> None:
    for token in tokens:
        future = cast("asyncio.Future[Message]", token)
        if not future.done():
            future.set_exception(error)


def _time_out(future: asyncio.Future[Message], request: Message, timeout_ms: int) -> None:
    if not future.done():
        name = type(request).__name__
        future.set_exception(
            KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{name} was not committed within {timeout_ms} ms; it may still take effect",
            )
        )
