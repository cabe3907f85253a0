"""uniform for members that subscribe to different topics.

1. Members keep the partitions of topics that they still subscribe to.
2. Free partitions are assigned to the least loaded subscriber, beginning with the topics that have the most
   partitions per subscriber.
3. Partitions move from the most to the least loaded subscriber of each topic, in rounds, until none moves or
   the limit of rounds is reached. The result is nearly balanced; the best one is hard to find.
"""

from __future__ import annotations

from struct import Struct

from ruslo.machines.assignors.levels import Levels
from ruslo.machines.assignors.spec import GroupSpec, Partitions
from ruslo.model.ids import Uuid

LEVELLING_ROUNDS_MAX = 16
NO_OWNER = -1

_signed_halves = Struct(">qq").unpack
"""The order of Kafka's topic ids: two signed numbers."""


class MixedAssignment:
    """Members are indexes of ``group.members``; loads are indexed by them."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._numbers = {member_id: number for number, member_id in enumerate(group.members)}
        self._loads = [0] * len(group.members)
        self._subscribers = {
            topic_id: [self._numbers[member_id] for member_id in subscribers]
            for topic_id, subscribers in group.subscribers().items()
            if subscribers
        }
        self._owners = {
            topic_id: [NO_OWNER] * group.topics[topic_id].partition_count for topic_id in self._subscribers
        }

    def build(self) -> dict[str, Partitions]:
        for (topic_id, partition), member_id in self._group.owners().items():
            self._give(topic_id, partition, self._numbers[member_id])
        topics_in_order = sorted(self._subscribers, key=self._place)
        for topic_id in topics_in_order:
            self._assign_free(topic_id)
        self._level([topic_id for topic_id in topics_in_order if len(self._subscribers[topic_id]) > 1])
        return self._result()

    def _place(self, topic_id: Uuid) -> tuple[float, int, tuple[int, ...]]:
        partition_count = len(self._owners[topic_id])
        subscriber_count = len(self._subscribers[topic_id])
        return -partition_count / subscriber_count, subscriber_count, _signed_halves(topic_id)

    def _give(self, topic_id: Uuid, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] != NO_OWNER:
            self._loads[owners[partition]] -= 1
        owners[partition] = member
        self._loads[member] += 1

    def _assign_free(self, topic_id: Uuid) -> None:
        free = [partition for partition, owner in enumerate(self._owners[topic_id]) if owner == NO_OWNER]
        if free:
            levels = Levels(self._loads, self._subscribers[topic_id])
            for partition in free:
                self._give(topic_id, partition, levels.take_lowest())

    def _level(self, topics_in_order: list[Uuid]) -> None:
        last_changed = None
        for _ in range(LEVELLING_ROUNDS_MAX):
            for topic_id in topics_in_order:
                if topic_id == last_changed:
                    return  # once around without a move
                if self._level_topic(topic_id) or last_changed is None:
                    last_changed = topic_id

    def _level_topic(self, topic_id: Uuid) -> bool:
        """Move partitions of one topic until its subscribers are balanced; returns whether any moved."""
        levels = Levels(self._loads, self._subscribers[topic_id])
        if levels.spread <= 1:
            return False
        givable: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            givable.setdefault(owner, []).append(partition)
        moved = False
        while True:
            giver = levels.take_highest()
            while giver is not None and not givable.get(giver):
                levels.drop_highest()
                giver = levels.take_highest()
            if giver is None:
                return moved
            partition = givable[giver].pop()
            taker = levels.take_lowest()
            if levels.even:
                return moved
            self._give(topic_id, partition, taker)
            moved = True

    def _result(self) -> dict[str, Partitions]:
        member_ids = list(self._numbers)
        result: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in member_ids}
        for topic_id, owners in self._owners.items():
            for partition, member in enumerate(owners):
                result[member_ids[member]].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in result.items()
        }
