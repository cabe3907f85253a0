"""Partitions as their readers saw them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.digest import Digest, Read
from ruslo.testing.histories.events import Isolation, ListEnds, SeenRecord, Span


class Sighting(NamedTuple):
    """A record, and the read that showed it first."""

    record: SeenRecord
    read: Read


class Stretch(NamedTuple):
    """What one read says of one partition."""

    span: Span
    read: Read


@dataclass(slots=True)
class SeenLog:
    """One partition for readers of one isolation level."""

    records: dict[int, Sighting] = field(default_factory=dict)
    """By offset; the first of several contents."""
    others: list[Sighting] = field(default_factory=list)
    """Further contents of an offset that has one already."""
    stretches: list[Stretch] = field(default_factory=list)

    def add(self, span: Span, read: Read) -> None:
        self.stretches.append(Stretch(span, read))
        for record in span.records:
            known = self.records.setdefault(record.offset, Sighting(record, read))
            if known.record != record:
                self.others.append(Sighting(record, read))

    def covers(self, end: int) -> bool:
        """Whether every offset from 0 to ``end`` was read by somebody."""
        reached = 0
        for start, stop in sorted((span.start, span.end) for span, _ in self.stretches):
            if start > reached:
                break
            reached = max(reached, stop)
        return reached >= end

    def overlooked(self, known: SeenLog) -> Iterator[tuple[Stretch, Sighting]]:
        """What ``known`` has within a stretch that its reader here was not given."""
        offsets = sorted(known.records)
        for stretch in self.stretches:
            span = stretch.span
            first, last = bisect_left(offsets, span.start), bisect_left(offsets, span.end)
            if last - first <= len(span.records):
                # It was given at least as many; what it was given is in ``known`` too, so it has them all.
                continue
            given = {record.offset for record in span.records}
            for offset in offsets[first:last]:
                if offset not in given:
                    yield stretch, known.records[offset]


class Sightings:
    def __init__(self, history: Digest) -> None:
        self.committed: defaultdict[TopicPartition, SeenLog] = defaultdict(SeenLog)
        self.uncommitted: defaultdict[TopicPartition, SeenLog] = defaultdict(SeenLog)
        """Only what readers of uncommitted data saw."""
        self.everything: defaultdict[TopicPartition, SeenLog] = defaultdict(SeenLog)
        """What anybody saw."""
        for read, poll in history.polls:
            committed_only = poll.isolation is Isolation.READ_COMMITTED
            logs = self.committed if committed_only else self.uncommitted
            for span in poll.spans:
                logs[span.place].add(span, read)
                self.everything[span.place].add(span, read)
        self.final_ends = _final(history, Isolation.READ_COMMITTED)
        self.high_watermarks = _final(history, Isolation.READ_UNCOMMITTED)
        self.proven = {
            place for place, (end, _) in self.final_ends.items() if self.committed[place].covers(end)
        }
        """Partitions of which all that readers of committed data can ever see is known."""
        self.visible: dict[str, Sighting] = {
            sighting.record.element: sighting
            for log in self.committed.values()
            for sighting in (*log.others, *log.records.values())
        }
        """By element: what readers of committed data saw."""

    def places(self) -> Iterable[TopicPartition]:
        return self.everything.keys()


def _final(history: Digest, isolation: Isolation) -> dict[TopicPartition, tuple[int, Read]]:
    found: dict[TopicPartition, tuple[int, Read]] = {}
    for read, call in history.ends:
        if _is_final(call, isolation):
            found.update({place: (end, read) for place, end in call.ends})
    return found


def _is_final(call: ListEnds, isolation: Isolation) -> bool:
    return call.final and call.isolation is isolation
