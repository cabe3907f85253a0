"""The events of a history: the calls of clients and their results, in order of time.

As in Jepsen, an operation has two events, its invocation and its completion:

| kind   | meaning                                                                          |
|--------|----------------------------------------------------------------------------------|
| invoke | the operation starts; recorded before anything is sent, so that a crash shows it |
| ok     | it succeeded; the event contains the result                                      |
| fail   | it certainly had no effect                                                       |
| info   | the result is unknown: a timeout, a lost connection, a fenced client             |

An operation without a completion is the same as one that completed with ``info``. Elements and the names of
transactions are unique in the whole history: a retried transaction has another name.
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


class Append(msgspec.Struct, frozen=True, tag="append", omit_defaults=True, rename={"tp": "place"}):
    """A transaction appends an element to the list of a key, which is in the log of a partition."""

    transaction: str
    tp: TopicPartition
    key: str
    element: str

    def __str__(self) -> str:
        return f"append {self.element} to {self.tp} in {self.transaction}"


class SendOffsets(
    msgspec.Struct, frozen=True, tag="send_offsets", omit_defaults=True, rename={"tp": "place"}
):
    """A transaction commits, with its output, that a group has read [first, end) of a partition."""

    transaction: str
    group: str
    tp: TopicPartition
    first: int
    end: int

    def __str__(self) -> str:
        offsets = f"[{self.first}, {self.end}) of {self.tp}"
        return f"send offsets of {self.group} for {offsets} in {self.transaction}"


class End(msgspec.Struct, frozen=True, tag="end", omit_defaults=True):
    transaction: str
    commit: bool

    def __str__(self) -> str:
        return f"{'commit' if self.commit else 'abort'} {self.transaction}"


class SeenRecord(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    key: str
    element: str


class ReadRange(msgspec.Struct, frozen=True, array_like=True):
    """A range of offsets of a partition, and all records of it that a consumer received."""

    tp: TopicPartition
    start: int
    end: int
    """The consumer's next position."""
    records: tuple[SeenRecord, ...]


class Poll(msgspec.Struct, frozen=True, tag="poll", omit_defaults=True, rename={"ranges": "spans"}):
    isolation: Isolation
    ranges: tuple[ReadRange, ...] = ()

    def __str__(self) -> str:
        ranges = ", ".join(
            f"{read_range.tp} [{read_range.start}, {read_range.end}) {len(read_range.records)} records"
            for read_range in self.ranges
        )
        return f"poll {self.isolation} {ranges}"


class ListEnds(msgspec.Struct, frozen=True, tag="list_ends", omit_defaults=True):
    """The end offsets for an isolation level: last stable offsets or high watermarks."""

    isolation: Isolation
    final: bool = False
    """Whether all producers have ended and all transaction timeouts have passed."""
    ends: tuple[tuple[TopicPartition, int], ...] = ()
    leader_epochs: tuple[tuple[TopicPartition, int], ...] = ()
    """The epochs of the leaders that returned the ends; empty if the client does not report them."""

    def __str__(self) -> str:
        epochs = dict(self.leader_epochs)
        ends = ", ".join(
            f"{tp}: {end}" + (f" (leader epoch {epochs[tp]})" if tp in epochs else "")
            for tp, end in self.ends
        )
        return f"list ends {self.isolation} {ends}"


class FetchOffsets(msgspec.Struct, frozen=True, tag="fetch_offsets", omit_defaults=True):
    """The committed offsets of a group, fetched with ``require_stable``.

    NO_OFFSET: no offset is committed. UNSTABLE: an open transaction has a pending offset.
    """

    group: str
    final: bool = False
    offsets: tuple[tuple[TopicPartition, int], ...] = ()

    def __str__(self) -> str:
        return f"fetch offsets of {self.group} {_listed(self.offsets)}"


Call: TypeAlias = Append | SendOffsets | End | Poll | ListEnds | FetchOffsets


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    time_ns: int
    """The time on a clock that all processes share; only the order matters."""
    process: str
    """An instance of a client; a restarted client is another process."""
    kind: Kind
    call: Call
    note: str = ""
    """A note for people, such as an error message."""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.time_ns / 1e9:.6f} s, {self.process}: {self.kind} {self.call}{note}"


def _listed(offsets: tuple[tuple[TopicPartition, int], ...]) -> str:
    return ", ".join(f"{tp}: {offset}" for tp, offset in offsets)
