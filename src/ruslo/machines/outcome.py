"""What a machine asks of the driver that runs it: four verbs.

A machine is synchronous and touches no clock, socket or disk. ``handle(event, now_ms)`` returns an Outcome;
the driver does what it says, in this order:

1. ``append``: the records go to the machine's log as one batch, all or none. The machine's state does not
   change before the driver gives them back through ``replay``.
2. ``replies``: released at once if there is no append, otherwise when the append has committed. If
   leadership is lost first, the driver answers with an error of its own and these are dropped.
3. ``sends``: requests to other nodes; whatever comes back is another event.
4. ``wake``: call ``handle`` with a timer event at that time, unless something moved ``deadline_ms()`` first.

A read that must be linearizable is an Outcome whose append is empty: it commits with all that was appended
before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

RecordT = TypeVar("RecordT", covariant=True)
TokenT = TypeVar("TokenT", covariant=True)
MessageT = TypeVar("MessageT", covariant=True)


@dataclass(frozen=True, slots=True)
class Append(Generic[RecordT]):
    """Records for the machine's own log, one atomic batch; none: only wait for what was appended before."""

    records: tuple[RecordT, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply(Generic[TokenT, MessageT]):
    """The answer to the event that carried ``token``."""

    token: TokenT
    message: MessageT


@dataclass(frozen=True, slots=True)
class Send(Generic[MessageT]):
    """A request to the node with this id."""

    node: int
    request: MessageT


@dataclass(frozen=True, slots=True)
class Wake:
    """Call again at this time; on the same clock as the ``now_ms`` that the machine is given."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Outcome(Generic[RecordT, TokenT, MessageT]):
    append: Append[RecordT] | None = None
    replies: tuple[Reply[TokenT, MessageT], ...] = ()
    sends: tuple[Send[MessageT], ...] = ()
    wake: Wake | None = None
