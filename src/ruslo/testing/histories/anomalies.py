"""The anomalies of a history, and the verdict of the checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.events import Event


class Anomaly(StrEnum):
    """Kafka guarantees that none of these happens; docs/testing.md lists what it does not guarantee."""

    ABORTED_READ = "aborted-read"
    """A read_committed consumer read an element of an aborted transaction (Adya's G1a)."""
    DIRTY_READ = "dirty-read"
    """A read_committed consumer read an element before the end of its transaction was requested."""
    TORN_TRANSACTION = "torn-transaction"
    """Some elements of a transaction are in the log, others are missing."""
    LOST_WRITE = "lost-write"
    """The commit of a transaction was acknowledged, and an element of it is missing."""
    DUPLICATE = "duplicate"
    """An element is in the log twice."""
    REORDERED = "reordered"
    """Elements of one producer are in a partition in another order than it sent them."""
    PHANTOM = "phantom"
    """An element that was never written, was written to another partition, or was rejected."""
    INCONSISTENT_READ = "inconsistent-read"
    """Two consumers disagree: a record disappeared, or appeared later, or an offset has two contents."""
    END_WENT_BACK = "end-went-back"
    """The last stable offset or the high watermark decreased."""
    HANGING_TRANSACTION = "hanging-transaction"
    """All producers have ended, and the last stable offset is still below the high watermark."""
    OFFSETS_OUT_OF_STEP = "offsets-out-of-step"
    """A group's offsets do not match the outputs of the transactions that committed them."""


@dataclass(frozen=True, slots=True)
class Finding:
    anomaly: Anomaly
    what: str
    proof: tuple[Event, ...]
    """The contradicting events, in order of time."""

    def __str__(self) -> str:
        return "\n".join((f"{self.anomaly}: {self.what}", *(f"    {event}" for event in self.proof)))


@dataclass(frozen=True, slots=True)
class Verdict:
    findings: Sequence[Finding]
    transactions: Counter[str] = field(default_factory=Counter)
    """The numbers of committed, aborted and unknown transactions."""
    elements_read: int = 0
    """The number of distinct elements that read_committed consumers read."""
    unproven: frozenset[TopicPartition] = frozenset()
    """Partitions that were not read to their final end: lost elements would go unnoticed there."""

    @property
    def anomalies(self) -> Counter[Anomaly]:
        return Counter(finding.anomaly for finding in self.findings)

    @property
    def valid(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(self.transactions.items()))
        lines = [f"transactions: {counts or 'none'}; {self.elements_read} elements read"]
        if self.unproven:
            names = ", ".join(sorted(map(str, self.unproven)))
            lines.append(f"not read to the end, so lost elements would go unnoticed: {names}")
        lines += map(str, self.findings)
        if self.valid:
            lines.append("no anomaly")
        return "\n".join(lines)
