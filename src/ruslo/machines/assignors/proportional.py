"""Assigns partitions of different weights to members of different capacities.

The heaviest partitions come first. A member keeps its partitions up to its fair share; the others go to the
member with the lowest load for its capacity. The current target stays if it is not noticeably worse than the
result, because moving a partition interrupts its consumption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heapreplace
from typing import TypeAlias

from ruslo.machines.assignors.spec import GroupSpec, Partitions
from ruslo.model.ids import Uuid

Place: TypeAlias = tuple[Uuid, int]
"""A partition of a topic."""


class ProportionalDivision:
    def __init__(
        self,
        group: GroupSpec,
        weight_of: Callable[[Uuid, int], float],
        capacity_of: Callable[[str], float],
        tolerance: float,
    ) -> None:
        """``tolerance``: how much worse, as a fraction, the current target may be to stay."""
        self._group = group
        self._tolerance = tolerance
        self._capacities = {member_id: capacity_of(member_id) for member_id in group.members}
        self._subscribers = {
            topic_id: tuple(subscribers)
            for topic_id, subscribers in group.subscribers().items()
            if subscribers
        }
        self._weights = {
            (topic_id, partition): weight_of(topic_id, partition)
            for topic_id in self._subscribers
            for partition in range(group.topics[topic_id].partition_count)
        }
        self._mean_weight = sum(self._weights.values()) / len(self._weights) if self._weights else 0.0

    def build(self) -> dict[str, Partitions]:
        current = self._group.owners()
        new = self._divide(current)
        if len(current) == len(self._weights) and self._cost(current) <= self._cost(new) * (
            1 + self._tolerance
        ):
            new = current
        result: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in self._group.members}
        for (topic_id, partition), member_id in new.items():
            result[member_id].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in result.items()
        }

    def _divide(self, current: Mapping[Place, str]) -> dict[Place, str]:
        loads = dict.fromkeys(self._group.members, 0.0)
        shares = self._fair_shares()
        owners: dict[Place, str] = {}
        rest: list[Place] = []
        for place in sorted(self._weights, key=lambda place: -self._weights[place]):
            weight = self._weights[place]
            owner = current.get(place)
            # The small slack compensates for rounding.
            if owner is not None and loads[owner] + weight <= shares[owner] * (1 + self._tolerance) + 1e-9:
                owners[place] = owner
                loads[owner] += weight
            else:
                rest.append(place)
        heaps: dict[tuple[str, ...], list[tuple[float, str]]] = {}
        for place in rest:
            member_id = self._least_filled(heaps, self._subscribers[place[0]], loads)
            owners[place] = member_id
            loads[member_id] += self._weights[place]
        return owners

    def _least_filled(
        self,
        heaps: dict[tuple[str, ...], list[tuple[float, str]]],
        subscribers: tuple[str, ...],
        loads: Mapping[str, float],
    ) -> str:
        heap = heaps.get(subscribers)
        if heap is None:
            heap = heaps[subscribers] = [
                (self._fill(member_id, loads), member_id) for member_id in subscribers
            ]
            heapify(heap)
        # Loads only increase, so a stale entry is too small, never too large.
        while (fill := self._fill(heap[0][1], loads)) != heap[0][0]:
            heapreplace(heap, (fill, heap[0][1]))
        return heap[0][1]

    def _fill(self, member_id: str, loads: Mapping[str, float]) -> float:
        """The relative load with one more partition of this weight."""
        return (loads[member_id] + self._mean_weight) / self._capacities[member_id]

    def _fair_shares(self) -> dict[str, float]:
        """The fair share of each member: each topic's weight is divided by capacity."""
        shares = dict.fromkeys(self._group.members, 0.0)
        weight_of_topic = dict.fromkeys(self._subscribers, 0.0)
        for (topic_id, _), weight in self._weights.items():
            weight_of_topic[topic_id] += weight
        for topic_id, subscribers in self._subscribers.items():
            capacity = sum(self._capacities[member_id] for member_id in subscribers)
            for member_id in subscribers:
                shares[member_id] += weight_of_topic[topic_id] * self._capacities[member_id] / capacity
        return shares

    def _cost(self, owners: Mapping[Place, str]) -> float:
        """The imbalance: the sum of load² / capacity, which is smallest if all relative loads are equal."""
        loads = dict.fromkeys(self._group.members, 0.0)
        for place, member_id in owners.items():
            loads[member_id] += self._weights[place]
        return sum(load * load / self._capacities[member_id] for member_id, load in loads.items())
