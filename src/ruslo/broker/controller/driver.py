"""Runs the controller machine: requests in, records to the metadata log, responses when they are committed.

The machine has its own image, besides the one of the metadata loader that the broker reads. The two differ by
the records that are appended but not committed. A broker must never act on those, since they may still be
lost; a shared image would save only some 150 bytes per partition. When leadership is lost with such records
outstanding, the machine loads the loader's image again, which contains exactly what is committed.

The scheduler makes a change: its records are computed, encoded, appended and replayed in small steps, so a
change of thousands of partitions does not delay requests. Events that arrive meanwhile wait until it is
complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Protocol, cast

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, Work
from ruslo.machines.controller.broker_image import FENCE
from ruslo.machines.controller.events import Activated, BrokerGone, ControllerEvent, RequestOrigin
from ruslo.machines.controller.machine import ControllerMachine, Response
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import MAX_RECORDS_PER_REQUEST
from ruslo.machines.controller.topic_image import RECOVERING
from ruslo.machines.machine import Instant, Reply, Requested, TimerFired
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.principals import ANONYMOUS
from ruslo.protocol.message import Message
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
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


class _Pending(NamedTuple):
    offset: int
    """The replies are released when this offset is committed."""
    replies: Sequence[Reply[Response]]


class _Change(NamedTuple):
    """The event that is being handled, and the replies to release when its records are committed."""

    event: ControllerEvent
    replies: Sequence[Reply[Response]]


@dataclass(eq=False)
class ControllerDriver:
    _machine: ControllerMachine
    _log: AppendableLog
    _metadata: MetadataLoader
    _: KW_ONLY
    node_id: int
    clock: Clock
    scheduler: Scheduler
    probe: Callable[[int, int], None]
    """Called with the id and epoch of every unfenced broker when this node becomes the active controller: a
    broker may have died together with the previous one."""

    def __post_init__(self) -> None:
        self._epoch = -1
        self._active = False
        self._replayed = -1
        """The offset of the last record that the machine has replayed."""
        self.unclean_elections = 0
        """Leaders that this node, as the active controller, elected although they may lack records."""
        self._appended = -1
        """The offset of the last record that this controller appended and listeners will see."""
        self.committed_offset = -1
        self._pending: deque[_Pending] = deque()
        self._change: _Change | None = None
        """The change that is being made."""
        self._work: Work[None] | None = None
        self._waiting: deque[ControllerEvent] = deque()
        """Events that came while a change was being made."""
        self._timer = DeadlineTimer(self.clock, self._machine.deadline_ms, lambda: self._run(TimerFired()))

    @property
    def is_active(self) -> bool:
        return self._active

    def submit(
        self, request: Message, context: RequestContext | None = None, *, timeout_ms: int = 0
    ) -> asyncio.Future[Message]:
        """Submit a request; the response comes when everything that it depends on is committed.

        Raises KafkaError through the future: NOT_CONTROLLER if this node does not lead, or
        REQUEST_TIMED_OUT after ``timeout_ms`` (0: never), when the change may still take effect.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Message] = loop.create_future()
        if timeout_ms > 0:
            timer = loop.call_later(timeout_ms / 1000, _time_out, future, request, timeout_ms)
            future.add_done_callback(lambda _: timer.cancel())
        principal = ANONYMOUS if context is None else context.principal
        self._run(Requested(future, request, RequestOrigin(self._log.end_offset, principal)))
        return future

    def broker_gone(self, broker_id: int, broker_epoch: int) -> None:
        """The process of this registration has ended."""
        if self._active:
            self._run(BrokerGone(broker_id, broker_epoch))

    def stop(self) -> None:
        self._lose_leadership()
        self._timer.stop()

    # -- the metadata log ------------------------------------------------------------------------------------

    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        assert self._metadata.image.offset == offset - 1, "the metadata loader is notified first"
        self._load_committed_image()
        self.committed_offset = offset - 1
        yield

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        last = base_offset + len(records) - 1
        if last > self._replayed:
            for offset, record in enumerate(records, base_offset):
                self._machine.replay(record, offset)
            self._replayed = last
        self.committed_offset = max(self.committed_offset, last)
        while self._pending and self._pending[0].offset <= last:
            _release(self._pending.popleft().replies)

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        if leader_id != self.node_id:
            self._lose_leadership()
        elif epoch != self._epoch or not self._active:
            self._lose_leadership()
            logger.info("became the active controller in epoch %d", epoch)
            self._active, self._epoch = True, epoch
            self._run(Activated(self._log.kraft_version))
            if self._active:
                for broker in self._machine.image.cluster.brokers.values():
                    if not broker.fenced and broker.id != self.node_id:
                        self.probe(broker.id, broker.epoch)

    # -- the machine -----------------------------------------------------------------------------------------

    def _run(self, event: ControllerEvent) -> None:
        if self._change is not None:
            self._waiting.append(event)
            return
        try:
            self._machine.state.kraft_version = self._log.kraft_version
            now = Instant(self.clock.monotonic_ms(), self.clock.now_ms())
            outcome = self._machine.handle(event, now)
        except Exception as error:
            self._fail_event(event, error)
            return
        if outcome.records == () and not outcome.linearizable:
            _release(outcome.replies)
            self._timer.arm()
            return
        change = self._change = _Change(event, outcome.replies)
        steps = self._make(change, outcome.records)
        work = self.scheduler.run(steps, priority=Priority.CLUSTER, name="a change of the metadata")
        if work.done():
            work.result()
        else:
            self._work = work

    def _make(self, change: _Change, records: Iterable[VersionedRecord]) -> Steps[None]:
        try:
            yield from self._append_and_replay(records)
        except Exception as error:
            if self._change is change:
                self._change = None
                self._fail_event(change.event, error, change.replies)
        else:
            self._change = None
            self._release_when_committed(change.replies)
            self._timer.arm()
        while self._waiting and self._change is None:
            event = self._waiting.popleft()
            if isinstance(event, Requested):
                event = event._replace(context=event.context._replace(next_offset=self._log.end_offset))
            self._run(event)

    def _fail_event(
        self, event: ControllerEvent, error: Exception, replies: Sequence[Reply[Response]] = ()
    ) -> None:
        _fail([reply.token for reply in replies], error)
        if isinstance(event, Requested):
            _fail([event.token], error)
        elif not isinstance(error, KafkaError):
            raise error
        elif self._active:
            if isinstance(event, Activated):
                raise error
            # The log refused the records: its disk may be full. The machine tries again later.
            logger.error("%s had no effect: %s", type(event).__name__, error)
            self._timer.arm()
        # Otherwise the next active controller handles the event.

    def _append_and_replay(self, changes: Iterable[VersionedRecord]) -> Steps[None]:
        """Append nothing before all records are computed."""
        records: list[VersionedRecord] = []
        values: list[bytes] = []
        for change in changes:
            records.append(change)
            values.append(encode_metadata_record(*change))
            yield
        # Only the changes for a broker that joins or leaves can exceed a batch; they need not be atomic.
        for start in range(0, len(records), MAX_RECORDS_PER_REQUEST):
            batch = records[start : start + MAX_RECORDS_PER_REQUEST]
            base_offset = self._append(batch, values[start : start + MAX_RECORDS_PER_REQUEST])
            yield
            for offset, (record, _) in enumerate(batch, base_offset):
                self._machine.replay(record, offset)
                yield

    def _append(self, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None) -> int:
        """Append one batch; returns the offset of its first record. The machine must replay the records next.

        Raises KafkaError if the log rejects them, or this node lost the leadership meanwhile: then it is
        unknown whether the records will be committed, and the machine must not replay them.
        """
        epoch = self._epoch
        last = self._log.append(epoch, records, values)
        if not self._active or self._epoch != epoch:
            raise _not_controller()
        self._replayed = last
        # Listeners never see the end marker of a transaction: the record before it stands for it.
        self._appended = last - 1 if isinstance(records[-1][0], EndTransactionRecord) else last
        for record, _ in records:
            if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced:
                logger.info(
                    "%s broker %d", "fenced" if record.fenced == FENCE else "unfenced", record.broker_id
                )
            elif isinstance(record, PartitionChangeRecord) and record.leader_recovery_state == RECOVERING:
                self.unclean_elections += 1
        return last - len(records) + 1

    def _release_when_committed(self, replies: Sequence[Reply[Response]]) -> None:
        if self._appended <= self.committed_offset:
            _release(replies)
        elif replies:
            self._pending.append(_Pending(self._appended, replies))

    def _drop_change(self) -> bool:
        """The leadership is lost in the middle of a change; False if none is being made."""
        change, self._change = self._change, None
        if change is None:
            return False
        if self._work is not None:
            self._work.cancel()
        waiting, self._waiting = self._waiting, deque()
        tokens = [event.token for event in (change.event, *waiting) if isinstance(event, Requested)]
        _fail([*(reply.token for reply in change.replies), *tokens], _not_controller())
        return True

    def _lose_leadership(self) -> None:
        if not self._active:
            return
        self._active = False
        self._machine.deactivate()
        pending, self._pending = self._pending, deque()
        for each in pending:
            _fail([reply.token for reply in each.replies], _not_controller())
        # A change that was interrupted may be committed and not replayed.
        if self._drop_change() or self._appended > self.committed_offset:
            self._load_committed_image()
            self._appended = self._replayed

    def _load_committed_image(self) -> None:
        image = self._metadata.image.copy()
        self._machine.load(image)
        self._replayed = image.offset


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This node is no longer the active controller")


def _release(replies: Sequence[Reply[Response]]) -> None:
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
