"""Builds histories in tests, one call per operation."""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories import (
    Append,
    End,
    Event,
    FetchOffsets,
    Isolation,
    Kind,
    ListEnds,
    Poll,
    ReadRange,
    SeenRecord,
    SendOffsets,
)
from ruslo.testing.histories.events import Call

A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)
SOURCE = TopicPartition("source", 0)


def key_of(element: str) -> str:
    return f"key of {element}"


class HistoryBuilder:
    """Each call is an operation, invoked and completed at once by default."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(
        self, transaction: str, tp: TopicPartition, *elements: str, kind: Kind = Kind.OK, by: str = "p"
    ) -> None:
        for element in elements:
            self._do(by, kind, Append(transaction, tp, key_of(element), element))

    def offsets(self, transaction: str, first: int, end: int, *, by: str = "p") -> None:
        self._do(by, Kind.OK, SendOffsets(transaction, "g", SOURCE, first, end))

    def commit(self, transaction: str, kind: Kind = Kind.OK, *, by: str = "p") -> None:
        self._do(by, kind, End(transaction, True))

    def abort(self, transaction: str, kind: Kind = Kind.OK, *, by: str = "p") -> None:
        self._do(by, kind, End(transaction, False))

    def poll(
        self,
        tp: TopicPartition,
        start: int,
        end: int,
        records: Mapping[int, str],
        *,
        committed: bool = True,
        by: str = "r",
    ) -> None:
        seen = tuple(SeenRecord(offset, key_of(element), element) for offset, element in records.items())
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        self._do(by, Kind.OK, Poll(isolation), Poll(isolation, (ReadRange(tp, start, end, seen),)))

    def list_end(
        self,
        tp: TopicPartition,
        end: int,
        *,
        committed: bool = True,
        final: bool = False,
        leader_epoch: int | None = None,
    ) -> None:
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        epochs = () if leader_epoch is None else ((tp, leader_epoch),)
        result = ListEnds(isolation, final, ((tp, end),), epochs)
        self._do("r", Kind.OK, ListEnds(isolation, final=final), result)

    def read_to_the_end(self, tp: TopicPartition, end: int, records: Mapping[int, str]) -> None:
        """Read a partition to its final end."""
        for committed in (True, False):
            self.list_end(tp, end, committed=committed, final=True)
        self.poll(tp, 0, end, records)

    def fetch_offset(self, offset: int, *, final: bool = False) -> None:
        self._do("r", Kind.OK, FetchOffsets("g", final), FetchOffsets("g", final, ((SOURCE, offset),)))

    def event(self, process: str, kind: Kind, call: Call) -> None:
        self.events.append(Event(len(self.events), process, kind, call))

    def _do(self, process: str, kind: Kind, call: Call, result: Call | None = None) -> None:
        self.event(process, Kind.INVOKE, call)
        if kind is not Kind.INVOKE:
            self.event(process, kind, result or call)
