"""Partitions as consumers observed them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.digest import Digest, Read
from ruslo.testing.histories.events import Isolation, ReadRange, SeenRecord


class Observation(NamedTuple):
    """A record, and the first read that returned it."""

    record: SeenRecord
    read: Read


class ObservedRange(NamedTuple):
    """The result of one read for one partition."""

    read_range: ReadRange
    read: Read


@dataclass(slots=True)
class ObservedLog:
    """A partition as consumers of one isolation level observed it."""

    records: dict[int, Observation] = field(default_factory=dict)
    """Records by offset; the first one if an offset has several contents."""
    others: list[Observation] = field(default_factory=list)
    """Other contents of the same offsets."""
    ranges: list[ObservedRange] = field(default_factory=list)

    def add(self, read_range: ReadRange, read: Read) -> None:
        self.ranges.append(ObservedRange(read_range, read))
        for record in read_range.records:
            known = self.records.setdefault(record.offset, Observation(record, read))
            if known.record != record:
                self.others.append(Observation(record, read))

    def covers(self, end: int) -> bool:
        """Whether every offset from 0 to ``end`` was read."""
        reached = 0
        for start, stop in sorted((read_range.start, read_range.end) for read_range, _ in self.ranges):
            if start > reached:
                break
            reached = max(reached, stop)
        return reached >= end

    def overlooked(self, known: ObservedLog) -> Iterator[tuple[ObservedRange, Observation]]:
        """Records of ``known`` within a range that its consumer did not receive."""
        offsets = sorted(known.records)
        for observed in self.ranges:
            read_range = observed.read_range
            first, last = bisect_left(offsets, read_range.start), bisect_left(offsets, read_range.end)
            if last - first <= len(read_range.records):
                # ``known`` contains all received records, so at least as many means all.
                continue
            given = {record.offset for record in read_range.records}
            for offset in offsets[first:last]:
                if offset not in given:
                    yield observed, known.records[offset]


class Observations:
    def __init__(self, history: Digest) -> None:
        self.committed: defaultdict[TopicPartition, ObservedLog] = defaultdict(ObservedLog)
        self.uncommitted: defaultdict[TopicPartition, ObservedLog] = defaultdict(ObservedLog)
        """The logs as only read_uncommitted consumers observed them."""
        self.everything: defaultdict[TopicPartition, ObservedLog] = defaultdict(ObservedLog)
        """The logs as all consumers observed them."""
        for read, poll in history.polls:
            committed_only = poll.isolation is Isolation.READ_COMMITTED
            logs = self.committed if committed_only else self.uncommitted
            for read_range in poll.ranges:
                logs[read_range.tp].add(read_range, read)
                self.everything[read_range.tp].add(read_range, read)
        self.final_ends = _final(history, Isolation.READ_COMMITTED)
        self.high_watermarks = _final(history, Isolation.READ_UNCOMMITTED)
        self.proven = {tp for tp, (end, _) in self.final_ends.items() if self.committed[tp].covers(end)}
        """Partitions that read_committed consumers have read to the final end."""
        self.visible: dict[str, Observation] = {
            observation.record.element: observation
            for log in self.committed.values()
            for observation in (*log.others, *log.records.values())
        }
        """The elements that read_committed consumers read."""


def _final(history: Digest, isolation: Isolation) -> dict[TopicPartition, tuple[int, Read]]:
    found: dict[TopicPartition, tuple[int, Read]] = {}
    for read, call in history.ends:
        if call.final and call.isolation is isolation:
            found.update({tp: (end, read) for tp, end in call.ends})
    return found
