"""What can be wrong with a history, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.events import Event


class Anomaly(StrEnum):
    """Each of them is promised not to happen; see docs/testing.md for what is not promised."""

    ABORTED_READ = "aborted-read"
    """A reader of committed data saw an element of a transaction that was aborted (Adya's G1a)."""
    DIRTY_READ = "dirty-read"
    """A reader of committed data saw an element before its transaction was asked to end."""
    TORN_TRANSACTION = "torn-transaction"
    """Some elements of a transaction are there, others never came."""
    LOST_WRITE = "lost-write"
    """A transaction was confirmed to be committed, and an element of it is not there."""
    DUPLICATE = "duplicate"
    """An element stands in the log twice."""
    REORDERED = "reordered"
    """Elements of one producer stand in a partition in another order than it sent them."""
    PHANTOM = "phantom"
    """An element that nobody wrote, or not there, or that was refused."""
    INCONSISTENT_READ = "inconsistent-read"
    """Two readers do not agree: a record vanished, or appeared behind somebody's back, or an offset has two
    contents."""
    END_WENT_BACK = "end-went-back"
    """The last stable offset, or the high watermark, was further before."""
    HANGING_TRANSACTION = "hanging-transaction"
    """Everything is over, and readers of committed data are still held back."""
    OFFSETS_OUT_OF_STEP = "offsets-out-of-step"
    """A group's offsets and the outputs of the transactions that carried them tell different stories."""


@dataclass(frozen=True, slots=True)
class Finding:
    anomaly: Anomaly
    what: str
    proof: tuple[Event, ...]
    """The events that do not go together, in the order of time."""

    def __str__(self) -> str:
        return "\n".join((f"{self.anomaly}: {self.what}", *(f"    {event}" for event in self.proof)))


@dataclass(frozen=True, slots=True)
class Verdict:
    findings: Sequence[Finding]
    transactions: Counter[str] = field(default_factory=Counter)
    """How many were committed, aborted, and ended nobody knows how."""
    elements_read: int = 0
    """Different ones, by readers of committed data."""
    unproven: frozenset[TopicPartition] = frozenset()
    """Partitions that were not read to their final end: what was lost there would not be noticed."""

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
            lines.append(f"not read to the end, so that nothing can be said to be lost there: {names}")
        lines += map(str, self.findings)
        if self.valid:
            lines.append("no anomaly")
        return "\n".join(lines)
