"""The contract of the machines with a log: raft, controller, groups, transactions, share state.

A machine decides and does nothing else. It is synchronous and uses no clock, socket, disk, thread or
configuration object. A driver runs it:

1. ``handle(event, now)`` returns an ``Outcome``. It does not change the state that the machine's log holds.
2. The driver appends ``Outcome.records`` to the machine's log as one batch, all or none. Before the append,
   after it or on commit it passes every record back through ``replay(record, offset)``: only ``replay``
   changes logged state, on a leader, on a follower and after a restart. ADR 14 lists the exceptions.
3. The driver releases ``Outcome.replies`` when the batch is committed, and then calls ``handle`` with
   ``AppendCommitted``. Without records it releases them at once, unless the outcome is ``linearizable``.
4. If the append fails or is not committed in time, the driver drops the replies and calls ``handle`` with
   ``AppendFailed``; the outcome of that event contains the replies instead.
5. The driver executes ``Outcome.effects`` in order: requests to other nodes, queries, file writes. The result
   of an effect is another event.
6. The driver calls ``handle`` with ``TimerFired`` at ``deadline_ms()``.

When a node loses the leadership of the log, the driver unloads the machine and loads it again later. A
machine never rolls back a replayed record.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from ruslo.model.errors import ErrorCode

EventT = TypeVar("EventT", contravariant=True)
RecordT = TypeVar("RecordT")
MessageT = TypeVar("MessageT")
EffectT = TypeVar("EffectT")
ContextT = TypeVar("ContextT", covariant=True)
RequestT = TypeVar("RequestT", covariant=True)

MAX_ITEMS_PER_EVENT = 64
"""One event handles at most this many timers, groups, ids or markers: thousands may be due together. The rest
is due at once, in another event. The driver's scheduler runs requests between two events."""

COORDINATOR_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The errors of clients whose coordinator could not append or commit a record, by the error of its log."""


class Instant(NamedTuple):
    """The time of an event, read once from both clocks."""

    monotonic_ms: int
    """For deadlines and durations."""
    wall_ms: int
    """For timestamps in records, and for comparisons with them."""


class Reply(NamedTuple, Generic[MessageT]):
    """The response to the request whose event carried ``token``."""

    token: Hashable
    message: MessageT


@dataclass(slots=True, eq=False)
class Outcome(Generic[RecordT, MessageT, EffectT]):
    """The result of one event. It is a plain object: a coordinator makes tens of thousands a second."""

    records: Iterable[RecordT] = ()
    """One atomic batch for the machine's own log. It may be a generator: then the driver takes records from
    it in slices, and passes no other event to the machine before the last one."""
    replies: list[Reply[MessageT]] = field(default_factory=list)
    effects: list[EffectT] = field(default_factory=list)
    effects_on_commit: Sequence[EffectT] = ()
    """Effects that must not precede the records: the machine returns them with ``AppendCommitted``."""
    linearizable: bool = False
    """Without records: release the replies when everything appended before is committed, because they depend
    on it."""
    on_failure: Callable[[ErrorCode, Instant], Outcome[RecordT, MessageT, EffectT]] | None = None
    """Only the machine calls this, when it handles ``AppendFailed``. It reverts soft state and replies to
    tokens that need more than the plain error."""

    def append(self, records: Iterable[RecordT]) -> None:
        if not isinstance(self.records, list):
            self.records = list(self.records)
        self.records.extend(records)

    def reply(self, token: Hashable, message: MessageT) -> Outcome[RecordT, MessageT, EffectT]:
        self.replies.append(Reply(token, message))
        return self

    def add(self, other: Outcome[RecordT, MessageT, EffectT]) -> Outcome[RecordT, MessageT, EffectT]:
        """Merge the outcome of another step of the same event."""
        if other.records:
            self.append(other.records)
        self.replies += other.replies
        self.effects += other.effects
        if other.effects_on_commit:
            self.effects_on_commit = (*self.effects_on_commit, *other.effects_on_commit)
        if other.on_failure is not None:
            first, second = self.on_failure, other.on_failure
            self.on_failure = (
                second if first is None else lambda code, now: second(code, now).add(first(code, now))
            )
        return self

    def failure(self, code: ErrorCode, error: MessageT, now: Instant) -> Outcome[RecordT, MessageT, EffectT]:
        """The outcome that replaces this one when its records could not be appended or committed in time.

        ``code`` is the error code of the clients' responses; ``error`` replies to every token that
        ``on_failure`` leaves without a reply.
        """
        failed: Outcome[RecordT, MessageT, EffectT] = (
            Outcome() if self.on_failure is None else self.on_failure(code, now)
        )
        answered = {reply.token for reply in failed.replies}
        failed.replies += [Reply(reply.token, error) for reply in self.replies if reply.token not in answered]
        return failed


class Requested(NamedTuple, Generic[RequestT, ContextT]):
    """A request. Its reply carries ``token``, possibly in the outcome of a later event."""

    token: Hashable
    request: RequestT
    context: ContextT


class Loaded(NamedTuple):
    """This node leads the log and has replayed all of it."""

    leader_epoch: int


class Unloaded(NamedTuple):
    """This node no longer leads the log. The machine replies to every waiting request and stays idle."""


class TimerFired(NamedTuple):
    """``deadline_ms()`` has been reached."""


class AppendCommitted(NamedTuple, Generic[RecordT, MessageT, EffectT]):
    """The records of these outcomes are committed and their replies are released."""

    outcomes: Sequence[Outcome[RecordT, MessageT, EffectT]]


class AppendFailed(NamedTuple, Generic[RecordT, MessageT, EffectT]):
    """The records of these outcomes were not appended, or not committed in time; they may commit later."""

    outcomes: Sequence[Outcome[RecordT, MessageT, EffectT]]
    code: ErrorCode
    """The error of the log, or REQUEST_TIMED_OUT."""


class Machine(Protocol[EventT, RecordT, MessageT, EffectT]):
    def handle(self, event: EventT, now: Instant) -> Outcome[RecordT, MessageT, EffectT]: ...

    def replay(self, record: RecordT, offset: int) -> None: ...

    def deadline_ms(self) -> int | None:
        """The monotonic time of the next ``TimerFired``; None: no timer is set."""
        ...
