"""The vocabulary of histories: who asked what of a system, and what the system said, in the order of time.

A history is a list of events. As in Jepsen's, an operation is two of them: one when it is invoked, one when
it completes. How it completes matters:

| kind   | means                                                                              |
|--------|------------------------------------------------------------------------------------|
| invoke | it begins; written down before anything is sent, so that a crash leaves this trace |
| ok     | it happened; the event carries what was answered                                   |
| fail   | it did not happen, for certain                                                     |
| info   | nobody knows: a time-out, a lost connection, a client that was fenced              |

An operation without a completion is the same as one that ended with ``info``. Elements are unique over the
whole history, and so are the names of transactions: a transaction that is tried again is another one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from ruslo.model.topics import TopicPartition

NO_OFFSET = -1
UNSTABLE = -2


class Kind(StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Isolation(StrEnum):
    """Kafka's ``isolation.level``."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Append(msgspec.Struct, frozen=True, tag="append", omit_defaults=True):
    """A transaction adds an element to a key's list, which lives in the log of a partition."""

    transaction: str
    place: TopicPartition
    key: str
    element: str

    def __str__(self) -> str:
        return f"append {self.element} to {self.place} in {self.transaction}"


class SendOffsets(msgspec.Struct, frozen=True, tag="send_offsets", omit_defaults=True):
    """A transaction that has read [first, end) of a partition for a group commits that with its output."""

    transaction: str
    group: str
    place: TopicPartition
    first: int
    end: int

    def __str__(self) -> str:
        stretch = f"[{self.first}, {self.end}) of {self.place}"
        return f"send offsets of {self.group} for {stretch} in {self.transaction}"


class End(msgspec.Struct, frozen=True, tag="end", omit_defaults=True):
    transaction: str
    commit: bool

    def __str__(self) -> str:
        return f"{'commit' if self.commit else 'abort'} {self.transaction}"


class SeenRecord(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    key: str
    element: str


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of a partition, and everything in it that its reader was given."""

    place: TopicPartition
    start: int
    end: int
    """The reader goes on from here; it will not see anything below it again."""
    records: tuple[SeenRecord, ...]


class Poll(msgspec.Struct, frozen=True, tag="poll", omit_defaults=True):
    isolation: Isolation
    spans: tuple[Span, ...] = ()

    def __str__(self) -> str:
        spans = ", ".join(
            f"{span.place} [{span.start}, {span.end}) {len(span.records)} records" for span in self.spans
        )
        return f"poll {self.isolation} {spans}"


class ListEnds(msgspec.Struct, frozen=True, tag="list_ends", omit_defaults=True):
    """Where partitions end for readers of this isolation level: the last stable offset, or the high
    watermark."""

    isolation: Isolation
    final: bool = False
    """Nobody writes any more, and every open transaction has had the time to end by itself."""
    ends: tuple[tuple[TopicPartition, int], ...] = ()
    leader_epochs: tuple[tuple[TopicPartition, int], ...] = ()
    """In which the leaders that told those ends believed; empty if the client was not told."""

    def __str__(self) -> str:
        epochs = dict(self.leader_epochs)
        told = ", ".join(
            f"{place}: {end}" + (f" (leader epoch {epochs[place]})" if place in epochs else "")
            for place, end in self.ends
        )
        return f"list ends {self.isolation} {told}"


class FetchOffsets(msgspec.Struct, frozen=True, tag="fetch_offsets", omit_defaults=True):
    """The offsets a group has committed, stable ones only (``require_stable``).

    NO_OFFSET: there is none. UNSTABLE: an open transaction holds it back.
    """

    group: str
    final: bool = False
    offsets: tuple[tuple[TopicPartition, int], ...] = ()

    def __str__(self) -> str:
        return f"fetch offsets of {self.group} {_listed(self.offsets)}"


Call: TypeAlias = Append | SendOffsets | End | Poll | ListEnds | FetchOffsets


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    time_ns: int
    """On a clock that all processes share. Only the order counts."""
    process: str
    """One instance of a client: what comes back after a crash is another process."""
    kind: Kind
    call: Call
    note: str = ""
    """For the reader of a finding, such as the error that was answered."""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.time_ns / 1e9:.6f} s, {self.process}: {self.kind} {self.call}{note}"


def _listed(offsets: tuple[tuple[TopicPartition, int], ...]) -> str:
    return ", ".join(f"{place}: {offset}" for place, offset in offsets)
