"""weighted: members get partitions in proportion to the weight in their client id.

A client id that contains ``weight=N`` (``billing-7;weight=2.5``) has the weight N, any other 1. So large and
small machines can share a group, and a canary can get a small part of the traffic.
"""

from __future__ import annotations

import re

from ruslo.machines.assignors.proportional import ProportionalDivision
from ruslo.machines.assignors.spec import GroupSpec, Partitions

WEIGHT_MIN = 0.01
WEIGHT_MAX = 1000.0

_WEIGHT = re.compile(r"(?<![A-Za-z0-9])weight=([0-9]{1,9}(?:\.[0-9]{1,9})?)(?![0-9.])")


class WeightedAssignor:
    name = "weighted"
    needs_lag = False

    def assign(self, group: GroupSpec) -> dict[str, Partitions]:
        weights = {member_id: weight_of(member.client_id) for member_id, member in group.members.items()}
        return ProportionalDivision(
            group, weight_of=lambda topic_id, partition: 1.0, capacity_of=weights.__getitem__, tolerance=0.0
        ).build()


def weight_of(client_id: str) -> float:
    """The weight in the client id, within WEIGHT_MIN and WEIGHT_MAX; 1 if it is absent or invalid."""
    match = _WEIGHT.search(client_id)
    return 1.0 if match is None else min(WEIGHT_MAX, max(WEIGHT_MIN, float(match[1])))
