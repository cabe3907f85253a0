"""lag-aware: members get about the same lag, not the same number of partitions.

Lag is a snapshot. Every partition therefore also weighs as much as the average lag, for its future records. A
partition of unknown lag counts as average. Lag changes all the time, so the current target stays if it is at
most TOLERANCE worse than the best one found.
"""

from __future__ import annotations

from ruslo.machines.assignors.proportional import ProportionalDivision
from ruslo.machines.assignors.spec import GroupSpec, Partitions
from ruslo.model.ids import Uuid

TOLERANCE = 0.05


class LagAwareAssignor:
    name = "lag-aware"
    needs_lag = True

    def assign(self, group: GroupSpec) -> dict[str, Partitions]:
        known = [lag for topic in group.topics.values() for lag in topic.lags if lag >= 0]
        average = max(1.0, sum(known) / len(known)) if known else 1.0

        def weight_of(topic_id: Uuid, partition: int) -> float:
            lag = group.topics[topic_id].lag_of(partition)
            return average + (lag if lag >= 0 else average)

        return ProportionalDivision(
            group, weight_of=weight_of, capacity_of=lambda member_id: 1.0, tolerance=TOLERANCE
        ).build()
