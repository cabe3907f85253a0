"""Sorts a history into transactions, with their writes and outcomes, and reads."""

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
    ReadRange,
    SendOffsets,
)


class MalformedHistory(ValueError):
    """The history was recorded wrongly: nothing can be concluded from it."""


class Outcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Write:
    transaction: Transaction
    append: Append
    invoked: Event
    number: int
    """The sequence number of the call in its process."""
    refused: bool = False


@dataclass(slots=True, eq=False)
class OffsetCommit:
    """A group's offset, committed in a transaction."""

    transaction: Transaction
    sent: SendOffsets
    invoked: Event


@dataclass(slots=True, eq=False)
class Transaction:
    name: str
    process: str
    writes: list[Write] = field(default_factory=list)
    offset_commits: list[OffsetCommit] = field(default_factory=list)
    commit_invoked: int | None = None
    """The index of the first commit call in the sorted history."""
    abort_invoked: int | None = None
    ends: list[Event] = field(default_factory=list)
    _confirmed: Outcome | None = None

    @property
    def end_invoked(self) -> int | None:
        return min((at for at in (self.commit_invoked, self.abort_invoked) if at is not None), default=None)

    @property
    def outcome(self) -> Outcome:
        if self._confirmed is not None:
            return self._confirmed
        # Without a commit call a transaction cannot be committed.
        return Outcome.ABORTED if self.commit_invoked is None else Outcome.UNKNOWN

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
    """A read that completed with ``ok``; ``invoked`` and ``completed`` are indexes in the sorted history."""

    invoked: int
    completed: int
    event: Event


@dataclass(slots=True)
class Digest:
    transactions: dict[str, Transaction] = field(default_factory=dict)
    writes: dict[str, Write] = field(default_factory=dict)
    """Writes by element."""
    polls: list[tuple[Read, Poll]] = field(default_factory=list)
    ends: list[tuple[Read, ListEnds]] = field(default_factory=list)
    fetches: list[tuple[Read, FetchOffsets]] = field(default_factory=list)
    confirmed_at: dict[str, int] = field(default_factory=dict)
    """The index of the event that acknowledged the commit, by transaction."""


_Identity: TypeAlias = tuple[str, ...]


def digest(history: Iterable[Event]) -> Digest:
    """Raises MalformedHistory for contradictory events."""
    result = Digest()
    open_calls: dict[_Identity, int] = {}
    numbers: defaultdict[str, int] = defaultdict(int)
    for at, event in enumerate(sorted(history, key=lambda each: each.time_ns)):
        identity = _identity(event.process, event.call)
        if event.kind is Kind.INVOKE:
            if identity in open_calls:
                raise MalformedHistory(f"invoked again before completion: {event}")
            open_calls[identity] = at
            numbers[event.process] += 1
            _invoked(result, at, event, numbers[event.process])
            continue
        invoked = open_calls.pop(identity, None)
        if invoked is None:
            raise MalformedHistory(f"completed without an invocation: {event}")
        _completed(result, invoked, at, event)
    return result


def _identity(process: str, call: Call) -> _Identity:
    """Matches a completion to its invocation: a producer may have many concurrent appends."""
    match call:
        case Append():
            return "append", call.element
        case SendOffsets():
            return "send_offsets", call.transaction, call.group, str(call.tp)
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
        if call.commit and transaction.commit_invoked is None:
            transaction.commit_invoked = at
        elif not call.commit and transaction.abort_invoked is None:
            transaction.abort_invoked = at
        return
    if transaction.commit_invoked is not None:
        raise MalformedHistory(f"{call.transaction} already has a commit call: {event}")
    if isinstance(call, SendOffsets):
        transaction.offset_commits.append(OffsetCommit(transaction, call, event))
        return
    if call.element in result.writes:
        raise MalformedHistory(f"{call.element} was already written, but elements must be unique: {event}")
    write = result.writes[call.element] = Write(transaction, call, event, number)
    transaction.writes.append(write)


def _completed(result: Digest, invoked: int, at: int, event: Event) -> None:
    match event.call:
        case Append(element=element):
            result.writes[element].refused = event.kind is Kind.FAIL
        case End(transaction=name, commit=commit) as call:
            result.transactions[name].note_end(event, call)
            if commit and event.kind is Kind.OK:
                result.confirmed_at[name] = at
        case Poll() as call if event.kind is Kind.OK:
            if not all(_is_valid(read_range) for read_range in call.ranges):
                raise MalformedHistory(f"records outside the range that was read, or out of order: {event}")
            result.polls.append((Read(invoked, at, event), call))
        case ListEnds() as call if event.kind is Kind.OK:
            result.ends.append((Read(invoked, at, event), call))
        case FetchOffsets() as call if event.kind is Kind.OK:
            result.fetches.append((Read(invoked, at, event), call))
        case _:
            pass


def _is_valid(read_range: ReadRange) -> bool:
    expected = read_range.start
    for record in read_range.records:
        if record.offset < expected:
            return False
        expected = record.offset + 1
    return expected <= max(read_range.end, read_range.start)
