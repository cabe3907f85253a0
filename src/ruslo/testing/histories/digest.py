"""A history put in order: transactions with what they wrote and how they ended, and what was read when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from ruslo.testing.histories.events import (
    Append,
    Call,
    End,
    Event,
    FetchOffsets,
    Kind,
    ListEnds,
    Poll,
    SendOffsets,
    Span,
)


class MalformedHistory(ValueError):
    """Whoever wrote the history down made a mistake: nothing can be concluded from it."""


class Outcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Write:
    transaction: Transaction
    append: Append
    asked: Event
    number: int
    """Its place among what its process asked for."""
    refused: bool = False


@dataclass(slots=True, eq=False)
class Move:
    """A group's offset, taken forward by a transaction."""

    transaction: Transaction
    sent: SendOffsets
    asked: Event


@dataclass(slots=True, eq=False)
class Transaction:
    name: str
    process: str
    writes: list[Write] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    commit_asked: int | None = None
    """When, as a place in the history."""
    abort_asked: int | None = None
    ends: list[Event] = field(default_factory=list)
    _confirmed: Outcome | None = None

    @property
    def end_asked(self) -> int | None:
        asked = [at for at in (self.commit_asked, self.abort_asked) if at is not None]
        return min(asked, default=None)

    @property
    def outcome(self) -> Outcome:
        if self._confirmed is not None:
            return self._confirmed
        # Whoever never asked for a commit cannot get one.
        return Outcome.ABORTED if self.commit_asked is None else Outcome.UNKNOWN

    def note_end(self, event: Event, call: End) -> None:
        self.ends.append(event)
        if event.kind is Kind.OK:
            confirmed = Outcome.COMMITTED if call.commit else Outcome.ABORTED
        elif event.kind is Kind.FAIL and call.commit:
            confirmed = Outcome.ABORTED
        else:
            return
        if self._confirmed not in (None, confirmed):
            raise MalformedHistory(f"{self.name} has two ends: {', '.join(map(str, self.ends))}")
        self._confirmed = confirmed


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """Something that was read, answered with ``ok``."""

    asked: int
    answered: int
    """Places in the history."""
    event: Event


@dataclass(slots=True)
class Digest:
    transactions: dict[str, Transaction] = field(default_factory=dict)
    writes: dict[str, Write] = field(default_factory=dict)
    """By element."""
    polls: list[tuple[Read, Poll]] = field(default_factory=list)
    ends: list[tuple[Read, ListEnds]] = field(default_factory=list)
    fetches: list[tuple[Read, FetchOffsets]] = field(default_factory=list)
    confirmed_at: dict[str, int] = field(default_factory=dict)
    """By name of a transaction: when its commit was confirmed, as a place in the history."""


_Identity: TypeAlias = tuple[str, ...]


def digest(history: Iterable[Event]) -> Digest:
    """Raises MalformedHistory if the events cannot be the trace of anything."""
    result = Digest()
    open_calls: dict[_Identity, int] = {}
    numbers: defaultdict[str, int] = defaultdict(int)
    for at, event in enumerate(sorted(history, key=lambda each: each.time_ns)):
        identity = _identity(event.process, event.call)
        if event.kind is Kind.INVOKE:
            if identity in open_calls:
                raise MalformedHistory(f"invoked again before it was answered: {event}")
            open_calls[identity] = at
            numbers[event.process] += 1
            _invoked(result, at, event, numbers[event.process])
            continue
        asked = open_calls.pop(identity, None)
        if asked is None:
            raise MalformedHistory(f"completed without being invoked: {event}")
        _completed(result, asked, at, event)
    return result


def _identity(process: str, call: Call) -> _Identity:
    """What a completion is matched by: a producer may have many appends under way at once."""
    match call:
        case Append():
            return "append", call.element
        case SendOffsets():
            return "send_offsets", call.transaction, call.group, str(call.place)
        case End():
            return "end", call.transaction, str(call.commit)
        case Poll() | ListEnds():
            return type(call).__name__, process, call.isolation
        case FetchOffsets():
            return "fetch_offsets", process, call.group


def _invoked(result: Digest, at: int, event: Event, number: int) -> None:
    call = event.call
    if not isinstance(call, Append | SendOffsets | End):
        return
    transaction = result.transactions.get(call.transaction)
    if transaction is None:
        transaction = result.transactions[call.transaction] = Transaction(call.transaction, event.process)
    elif transaction.process != event.process:
        raise MalformedHistory(
            f"{call.transaction} belongs to {transaction.process}, not to {event.process}: {event}"
        )
    if isinstance(call, End):
        if call.commit and transaction.commit_asked is None:
            transaction.commit_asked = at
        elif not call.commit and transaction.abort_asked is None:
            transaction.abort_asked = at
        return
    if transaction.commit_asked is not None:
        raise MalformedHistory(f"{call.transaction} was asked to commit before: {event}")
    if isinstance(call, SendOffsets):
        transaction.moves.append(Move(transaction, call, event))
        return
    if call.element in result.writes:
        raise MalformedHistory(f"{call.element} was written before, elements must be unique: {event}")
    write = result.writes[call.element] = Write(transaction, call, event, number)
    transaction.writes.append(write)


def _completed(result: Digest, asked: int, at: int, event: Event) -> None:
    match event.call:
        case Append(element=element):
            result.writes[element].refused = event.kind is Kind.FAIL
        case End(transaction=name, commit=commit) as call:
            result.transactions[name].note_end(event, call)
            if commit and event.kind is Kind.OK:
                result.confirmed_at[name] = at
        case Poll() as call if event.kind is Kind.OK:
            if not all(_is_sound(span) for span in call.spans):
                raise MalformedHistory(f"records outside of the span that was read, or out of order: {event}")
            result.polls.append((Read(asked, at, event), call))
        case ListEnds() as call if event.kind is Kind.OK:
            result.ends.append((Read(asked, at, event), call))
        case FetchOffsets() as call if event.kind is Kind.OK:
            result.fetches.append((Read(asked, at, event), call))
        case _:
            pass


def _is_sound(span: Span) -> bool:
    expected = span.start
    for record in span.records:
        if record.offset < expected:
            return False
        expected = record.offset + 1
    return expected <= max(span.end, span.start)
