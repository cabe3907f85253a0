"""Plans replica assignments: drain brokers, move topics, change the replication factor.

- A plan copies as little as possible: replicas stay where they are allowed to stay.
- A new replica goes to a rack without a replica of the partition, if possible, and there to the broker with
  the fewest replicas.
- Only topics that are *spread* over named brokers are balanced further: first their replicas, then their
  preferred leaders (the first replica), which needs no copying.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.model.errors import RusloError
from ruslo.model.topics import TopicPartition

Assignment: TypeAlias = Mapping[TopicPartition, Sequence[int]]


class ImpossiblePlacement(RusloError):
    """The brokers cannot host the requested replicas."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    racks: Mapping[int, str | None]
    """The brokers that may get new replicas, with their racks."""
    may_stay_on: Collection[int]
    """The brokers whose replicas may stay, including brokers that are down."""
    replication_factor: int | None = None
    """The new replication factor; None keeps that of each partition."""
    spread: bool = False
    """Whether to balance replicas and leaders over the brokers, even if that copies more."""


def plan_replicas(
    current: Assignment, selected: Iterable[TopicPartition], request: PlacementRequest
) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of the selected partitions that change; ``current`` is the whole cluster."""
    chosen = sorted(set(selected))
    # Spread topics are balanced among themselves; otherwise the load of the whole cluster counts.
    counted = {partition: current[partition] for partition in chosen} if request.spread else current
    planner = _Planner(request, counted)
    for partition in chosen:
        planner.place(partition, current[partition])
    if request.spread:
        planner.use_all_racks()
        planner.balance_replicas()
        planner.balance_leaders()
    return {
        partition: tuple(planner.planned[partition])
        for partition in chosen
        if planner.planned[partition] != list(current[partition])
    }


class _Planner:
    def __init__(self, request: PlacementRequest, counted: Assignment) -> None:
        self._request = request
        self._racks = request.racks
        self._replicas = Counter(replica for replicas in counted.values() for replica in replicas)
        self._leaders = Counter(replicas[0] for replicas in counted.values() if replicas)
        self.planned: dict[TopicPartition, list[int]] = {}

    def place(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        factor = self._request.replication_factor or len(replicas)
        kept = [replica for replica in replicas if replica in self._request.may_stay_on]
        self._replicas.subtract(replica for replica in replicas if replica not in kept)
        while len(kept) > factor:
            dropped = self._least_useful(kept)
            kept.remove(dropped)
            self._replicas[dropped] -= 1
        while len(kept) < factor:
            found = self._best_for(kept)
            if found is None:
                raise ImpossiblePlacement(
                    f"{partition} needs {factor} replicas, but brokers are available for only {len(kept)}: "
                    "name more brokers, or a lower replication factor"
                )
            kept.append(found)
            self._replicas[found] += 1
        self.planned[partition] = kept
        if replicas and kept[0] != replicas[0]:
            self._leaders[replicas[0]] -= 1
            first = min(kept, key=lambda replica: (self._leaders[replica], kept.index(replica)))
            self._lead(kept, first)
            self._leaders[first] += 1

    def use_all_racks(self) -> None:
        """Move one of two replicas that share a rack to a rack without a replica."""
        for replicas in self.planned.values():
            while (pair := self._better_rack(replicas)) is not None:
                self._replace(replicas, *pair)

    def balance_replicas(self) -> None:
        def may_move(replicas: Sequence[int], source: int, target: int) -> bool:
            return target not in replicas and self._keeps_racks(replicas, source, target)

        self._balance(lambda replicas: replicas, may_move, self._replace)

    def balance_leaders(self) -> None:
        self._balance(
            lambda replicas: replicas[:1],
            lambda replicas, source, target: target in replicas,
            lambda replicas, source, target: self._lead(replicas, target),
        )

    def _balance(
        self,
        counted: Callable[[list[int]], list[int]],
        may_move: Callable[[list[int], int, int], bool],
        move: Callable[[list[int], int, int], None],
    ) -> None:
        """Move partitions from brokers with the most of them, until the counts differ by at most one."""
        held: dict[int, set[TopicPartition]] = {broker: set() for broker in self._racks}
        for partition, replicas in self.planned.items():
            for replica in counted(replicas):
                held.setdefault(replica, set()).add(partition)
        while (found := self._next_move(held, may_move)) is not None:
            partition, source, target = found
            move(self.planned[partition], source, target)
            held[source].remove(partition)
            held[target].add(partition)

    # -- choices ---------------------------------------------------------------------------------------------

    def _best_for(self, kept: Sequence[int]) -> int | None:
        used = self._used_racks(kept)
        candidates = [broker for broker in self._racks if broker not in kept]
        return min(
            candidates,
            key=lambda broker: (self._racks[broker] in used, self._replicas[broker], broker),
            default=None,
        )

    def _least_useful(self, kept: Sequence[int]) -> int:
        """The replica to remove. It is never the first one, which is the preferred leader."""
        racks = Counter(self._racks.get(replica) for replica in kept)
        return max(
            kept[1:],
            key=lambda replica: (
                replica not in self._racks,  # not alive
                self._racks.get(replica) is not None and racks[self._racks.get(replica)] > 1,
                self._replicas[replica],
                replica,
            ),
        )

    def _better_rack(self, replicas: Sequence[int]) -> tuple[int, int] | None:
        used = self._used_racks(replicas)
        racks = Counter(self._racks.get(replica) for replica in replicas)
        doubled = [
            replica
            for replica in replicas
            if self._racks.get(replica) is not None and racks[self._racks[replica]] > 1
        ]
        free = [
            broker
            for broker, rack in self._racks.items()
            if rack is not None and rack not in used and broker not in replicas
        ]
        if not doubled or not free:
            return None
        source = max(doubled, key=lambda replica: (self._replicas[replica], replica))
        return source, min(free, key=lambda broker: (self._replicas[broker], broker))

    def _next_move(
        self, held: Mapping[int, set[TopicPartition]], may_move: Callable[[list[int], int, int], bool]
    ) -> tuple[TopicPartition, int, int] | None:
        by_load = sorted(self._racks, key=lambda broker: (len(held[broker]), broker))
        for source in reversed(by_load):
            for target in by_load:
                if len(held[source]) - len(held[target]) <= 1:
                    break
                for partition in sorted(held[source]):
                    if may_move(self.planned[partition], source, target):
                        return partition, source, target
        return None

    def _keeps_racks(self, replicas: Sequence[int], source: int, target: int) -> bool:
        after = [target if replica == source else replica for replica in replicas]
        return len(self._used_racks(after)) >= len(self._used_racks(replicas))

    def _used_racks(self, replicas: Iterable[int]) -> set[str]:
        return {rack for replica in replicas if (rack := self._racks.get(replica)) is not None}

    def _replace(self, replicas: list[int], source: int, target: int) -> None:
        replicas[replicas.index(source)] = target
        self._replicas[source] -= 1
        self._replicas[target] += 1

    def _lead(self, replicas: list[int], first: int) -> None:
        replicas.remove(first)
        replicas.insert(0, first)
