"""How far a partition is from losing records or refusing them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.wire.metadata import PartitionInfo, TopicInfo


class Risk(enum.IntEnum):
    """Each is worse than the one before, and a partition has the worst that is true of it."""

    UNDER_REPLICATED = 1
    """A replica is missing from the in-sync set."""
    AT_MIN_ISR = 2
    """One more, and writes with acks=all are refused."""
    UNDER_MIN_ISR = 3
    """Writes with acks=all are refused."""
    OFFLINE = 4
    """Nobody leads it: nothing can be written or read."""

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


RISK_LABELS = [risk.label for risk in Risk]


class PartitionAtRisk(NamedTuple):
    partition: TopicPartition
    risk: Risk
    info: PartitionInfo
    min_isr: int

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.info.replicas if replica not in self.info.isr)


def risk_of(info: PartitionInfo, min_isr: int) -> Risk | None:
    """``min_isr`` above the number of replicas counts as that number, as it does for brokers."""
    needed = min(min_isr, len(info.replicas))
    if info.leader_id < 0:
        return Risk.OFFLINE
    if len(info.isr) < needed:
        return Risk.UNDER_MIN_ISR
    if len(info.isr) == len(info.replicas):
        # All are there. With as many replicas as min.insync.replicas that is no margin, but it is by design.
        return None
    return Risk.AT_MIN_ISR if len(info.isr) == needed else Risk.UNDER_REPLICATED


async def partitions_at_risk(admin: Admin, topics: Iterable[TopicInfo]) -> list[PartitionAtRisk]:
    """The worst first."""
    suspects = [
        topic
        for topic in topics
        if any(each.leader_id < 0 or len(each.isr) < len(each.replicas) for each in topic.partitions)
    ]
    minima = await admin.configs.topic_values([topic.name for topic in suspects], "min.insync.replicas")
    found = []
    for topic in suspects:
        min_isr = int(minima.get(topic.name) or 1)
        for info in topic.partitions:
            risk = risk_of(info, min_isr)
            if risk is not None:
                place = TopicPartition(topic.name, info.partition)
                found.append(PartitionAtRisk(place, risk, info, min_isr))
    return sorted(found, key=lambda each: (-each.risk, each.partition))


def count_risks(found: Iterable[PartitionAtRisk]) -> dict[str, int]:
    counts = Counter(each.risk for each in found)
    return {risk.label: counts[risk] for risk in reversed(Risk)}
