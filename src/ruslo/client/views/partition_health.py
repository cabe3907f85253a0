"""Partitions that are under-replicated, below min.insync.replicas, or offline."""

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
    """Risks of a partition, in ascending order; the worst one applies."""

    UNDER_REPLICATED = 1
    """A replica is not in the ISR."""
    AT_MIN_ISR = 2
    """If one more replica leaves the ISR, produce requests with acks=all are rejected."""
    UNDER_MIN_ISR = 3
    """Produce requests with acks=all are rejected."""
    OFFLINE = 4
    """The partition has no leader: it can be neither written nor read."""

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
    """A ``min_isr`` above the number of replicas counts as that number, as in brokers."""
    needed = min(min_isr, len(info.replicas))
    if info.leader_id < 0:
        return Risk.OFFLINE
    if len(info.isr) < needed:
        return Risk.UNDER_MIN_ISR
    if len(info.isr) == len(info.replicas):
        # All replicas are in sync. A topic with min.insync.replicas replicas has no margin by design.
        return None
    return Risk.AT_MIN_ISR if len(info.isr) == needed else Risk.UNDER_REPLICATED


async def partitions_at_risk(admin: Admin, topics: Iterable[TopicInfo]) -> list[PartitionAtRisk]:
    """Partitions at risk, the worst first."""
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
                tp = TopicPartition(topic.name, info.partition)
                found.append(PartitionAtRisk(tp, risk, info, min_isr))
    return sorted(found, key=lambda each: (-each.risk, each.partition))


def count_risks(found: Iterable[PartitionAtRisk]) -> dict[str, int]:
    counts = Counter(each.risk for each in found)
    return {risk.label: counts[risk] for risk in reversed(Risk)}
