"""uniform: balanced first, then as few moves as possible. It ignores racks.

If all members subscribe to the same topics, every member gets ⌊P/M⌋ partitions and P mod M of them one more,
and keeps as many of its partitions as possible. Otherwise see ``uniform_mixed``.
"""

from __future__ import annotations

from itertools import islice

from ruslo.machines.assignors.spec import GroupSpec, Partitions
from ruslo.machines.assignors.uniform_mixed import MixedAssignment
from ruslo.model.ids import Uuid


class UniformAssignor:
    name = "uniform"
    needs_lag = False

    def assign(self, group: GroupSpec) -> dict[str, Partitions]:
        if not group.members or not group.topics:
            return {}
        return _assign_equal(group) if group.homogeneous else MixedAssignment(group).build()


def _assign_equal(group: GroupSpec) -> dict[str, Partitions]:
    # Two lists, as in Kafka: partitions without an owner are assigned before revoked ones.
    held = {
        (topic_id, partition)
        for member in group.members.values()
        for topic_id, partitions in member.current.items()
        for partition in partitions
    }
    unassigned = [
        (topic_id, partition)
        for topic_id, topic in group.topics.items()
        for partition in range(topic.partition_count)
        if (topic_id, partition) not in held
    ]
    partition_count = sum(topic.partition_count for topic in group.topics.values())
    share, longer_shares = divmod(partition_count, len(group.members))

    kept: dict[str, dict[Uuid, set[int]]] = {}
    room: dict[str, int] = {}
    for index, (member_id, member) in enumerate(group.members.items()):
        members_left = len(group.members) - index
        has_longer_share = longer_shares > 0
        free = share + has_longer_share
        kept[member_id] = keep = {}
        for topic_id, partitions in member.current.items():
            if topic_id not in group.topics:
                continue
            in_order = sorted(partitions)
            if in_order[:free]:
                keep[topic_id] = set(in_order[:free])
            unassigned += [(topic_id, partition) for partition in in_order[free:]]
            free -= min(free, len(in_order))
        if free and has_longer_share and members_left > longer_shares:
            # It does not use the larger quota; another member can keep a partition instead.
            free -= 1
            has_longer_share = False
        longer_shares -= has_longer_share
        if free:
            room[member_id] = free

    rest = iter(unassigned)
    for member_id, free in room.items():
        for topic_id, partition in islice(rest, free):
            kept[member_id].setdefault(topic_id, set()).add(partition)
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
        for member_id, topics in kept.items()
    }
