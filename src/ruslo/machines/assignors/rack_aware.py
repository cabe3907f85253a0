"""rack-aware: as balanced as uniform, and fetches stay within a rack where possible.

A partition is local to a member whose rack has one of its replicas (KIP-392). The result of uniform is
improved by exchanges that keep it balanced: a partition that is not local moves to a local member with fewer
partitions, or is swapped. Local partitions stay, so a stable group does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ruslo.machines.assignors.spec import GroupSpec, Partitions
from ruslo.machines.assignors.uniform import UniformAssignor
from ruslo.model.ids import Uuid

Place: TypeAlias = tuple[Uuid, int]
"""A partition of a topic."""

EXCHANGE_ROUNDS_MAX = 16


class RackAwareAssignor:
    name = "rack-aware"
    needs_lag = False

    def assign(self, group: GroupSpec) -> dict[str, Partitions]:
        even = UniformAssignor().assign(group)
        racks = {member.rack_id for member in group.members.values() if member.rack_id}
        if not racks or not any(topic.racks for topic in group.topics.values()):
            return even
        return _Exchange(group, even).build()


class _Exchange:
    def __init__(self, group: GroupSpec, even: Mapping[str, Partitions]) -> None:
        self._group = group
        self._owners: dict[Place, str] = {}
        self._counts = dict.fromkeys(group.members, 0)
        self._members_by_rack: dict[str, list[str]] = {}
        # The partitions of each rack's members by the racks of their replicas; dicts are ordered sets.
        self._held: dict[str, dict[frozenset[str], dict[Place, None]]] = {}
        for member_id, member in group.members.items():
            self._members_by_rack.setdefault(member.rack_id or "", []).append(member_id)
        for member_id, partitions in even.items():
            for topic_id, indexes in partitions.items():
                for partition in sorted(indexes):
                    self._put((topic_id, partition), member_id)

    def build(self) -> dict[str, Partitions]:
        for _ in range(EXCHANGE_ROUNDS_MAX):
            remote = [place for place, owner in self._owners.items() if not self._is_local(place, owner)]
            improved = False
            for place in remote:
                owner = self._owners[place]
                if not self._is_local(place, owner) and (self._hand_over(place) or self._swap(place)):
                    improved = True
            if not improved:
                break
        result: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in self._group.members}
        for (topic_id, partition), member_id in self._owners.items():
            result[member_id].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in result.items()
        }

    def _hand_over(self, place: Place) -> bool:
        """Move the partition to a local member with exactly one partition less, which swaps their counts."""
        count = self._counts[self._owners[place]]
        for rack in sorted(self._racks_of(place)):
            for member_id in self._members_by_rack.get(rack, ()):
                if self._counts[member_id] == count - 1 and self._may_have(member_id, place):
                    self._move(place, member_id)
                    return True
        return False

    def _swap(self, place: Place) -> bool:
        """Swap it for a partition that is local here or not local there; best if both become local."""
        owner = self._owners[place]
        rack = self._group.members[owner].rack_id or ""
        fair: Place | None = None
        for other_rack in sorted(self._racks_of(place)):
            for other_racks, others in self._held.get(other_rack, {}).items():
                gains = (rack in other_racks) - (other_rack in other_racks)
                if gains < 0 or (gains == 0 and fair is not None):
                    continue
                other = next(self._swappable(place, others), None)
                if other is not None and gains > 0:
                    self._exchange(place, other)
                    return True
                fair = fair or other
        if fair is None:
            return False
        self._exchange(place, fair)
        return True

    def _swappable(self, place: Place, others: Mapping[Place, None]) -> Iterator[Place]:
        owner = self._owners[place]
        return (
            other
            for other in others
            if self._may_have(owner, other) and self._may_have(self._owners[other], place)
        )

    def _exchange(self, one: Place, other: Place) -> None:
        one_owner, other_owner = self._owners[one], self._owners[other]
        self._move(one, other_owner)
        self._move(other, one_owner)

    def _move(self, place: Place, member_id: str) -> None:
        owner = self._owners[place]
        self._counts[owner] -= 1
        del self._held[self._group.members[owner].rack_id or ""][self._racks_of(place)][place]
        self._put(place, member_id)

    def _put(self, place: Place, member_id: str) -> None:
        self._owners[place] = member_id
        self._counts[member_id] += 1
        by_racks = self._held.setdefault(self._group.members[member_id].rack_id or "", {})
        by_racks.setdefault(self._racks_of(place), {})[place] = None

    def _is_local(self, place: Place, member_id: str) -> bool:
        """Whether the partition is local; members and partitions of unknown racks count as local."""
        rack, racks = self._group.members[member_id].rack_id, self._racks_of(place)
        return not rack or not racks or rack in racks

    def _racks_of(self, place: Place) -> frozenset[str]:
        return self._group.topics[place[0]].racks_of(place[1])

    def _may_have(self, member_id: str, place: Place) -> bool:
        return place[0] in self._group.members[member_id].subscribed_topic_ids
