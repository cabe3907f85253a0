"""The contract of every machine: what it is given, what it returns, who changes its state.

A machine decides and does nothing else: it is synchronous and touches no clock, socket, disk, thread or
configuration object. A driver runs it:

1. ``handle(event, now)`` returns an ``Outcome``. It changes no state that the machine's log holds.
2. The driver appends ``Outcome.records`` to the machine's log as one batch, all or none, and gives every
   record back through ``replay(record, offset)``: the only way in which that state changes, on a node that
   leads, on one that follows and on one that has just been restarted.
3. The driver releases ``Outcome.replies``: when the batch is committed; at once if there is nothing to commit
   and the outcome is not ``linearizable``.
4. The driver carries out ``Outcome.effects`` in order: requests to other nodes, queries, writes of files.
   Their result is another event.
5. The driver calls ``handle`` with a timer event at ``deadline_ms()``.

When a node loses the leadership of the log, the driver unloads the machine and loads it again later: a
machine is never rewound.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

EventT = TypeVar("EventT", contravariant=True)
RecordT = TypeVar("RecordT")
MessageT = TypeVar("MessageT")
EffectT = TypeVar("EffectT")


class Instant(NamedTuple):
    """The time of an event, read once from both clocks."""

    monotonic_ms: int
    """For deadlines and durations."""
    wall_ms: int
    """For timestamps in records, and for what is compared with them."""


class Reply(NamedTuple, Generic[MessageT]):
    """The response to the request whose event carried ``token``."""

    token: Hashable
    message: MessageT


@dataclass(slots=True, eq=False)
class Outcome(Generic[RecordT, MessageT, EffectT]):
    """What one event leads to. Plain and unfrozen: a coordinator makes tens of thousands of them a second."""

    records: Iterable[RecordT] = ()
    """One atomic batch for the machine's own log. It may be a generator: then the driver takes records from
    it in slices and gives the machine no other event before the last one."""
    replies: Sequence[Reply[MessageT]] = ()
    effects: Sequence[EffectT] = ()
    linearizable: bool = False
    """Without records, hold the replies until everything appended before is committed: they rest on it."""


class Machine(Protocol[EventT, RecordT, MessageT, EffectT]):
    def handle(self, event: EventT, now: Instant) -> Outcome[RecordT, MessageT, EffectT]: ...

    def replay(self, record: RecordT, offset: int) -> None: ...

    def deadline_ms(self) -> int | None:
        """The monotonic time at which ``handle`` wants a timer event; None: no timer is set."""
        ...
