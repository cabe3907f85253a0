"""Counters of the share-partitions that this broker leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ruslo.broker.counters.durations import Durations

ACKNOWLEDGE_TYPES = {1: "Accept", 2: "Release", 3: "Reject", 4: "Renew"}
"""Kafka's names, by the value of the type. It does not count gaps."""


@dataclass(slots=True, eq=False)
class ShareCounters:
    acknowledged: dict[int, int] = field(default_factory=lambda: dict.fromkeys(ACKNOWLEDGE_TYPES, 0))
    """Records acknowledged, by type."""
    load_times: Durations = field(default_factory=Durations)
    """Durations from the first fetch of a share-partition until its state was loaded."""
    expired_fetches: int = 0
    """Fetches that waited for records until their time was up."""
    lock_timeouts: int = 0
    """Records whose acquisition lock expired."""
    dead_letters: Counter[str] = field(default_factory=Counter)
    """Records copied to dead-letter topics, by group."""
    dead_letter_requests: Counter[str] = field(default_factory=Counter)
    """Batches sent to dead-letter topics, by group; failed attempts count as well."""
    lost_dead_letters: Counter[str] = field(default_factory=Counter)
    """Records archived without a dead letter, although their group has a dead-letter topic, by group."""

    def record_acknowledgements(self, types: Sequence[int], size: int) -> None:
        """``types``: one for the whole range of ``size`` offsets, or one for each."""
        weight = size if len(types) == 1 else 1
        for value, count in Counter(types).items():
            if value in self.acknowledged:
                self.acknowledged[value] += count * weight
