"""simple: the assignor of share groups, which may give a partition to several members. It ignores racks.

With P partitions and M members, every partition goes to ⌈M/P⌉ members, and the members have equally many. The
assignment is sticky: a member loses a partition only if it has too many, or if too many members have it. If
all members subscribe to the same topics, that holds for all partitions together, otherwise for each topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from ruslo.machines.assignors.spec import MemberSpec, Partitions
from ruslo.model.ids import Uuid

_Partition: TypeAlias = tuple[Uuid, int]


def assign(
    members: Mapping[str, MemberSpec], assignable: Mapping[Uuid, Collection[int]]
) -> dict[str, Partitions]:
    """The new target of the members, from the partitions of ``assignable`` only."""
    result: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in members}
    for partitions, member_ids in _pools(members, assignable):
        held = [members[member_id].current for member_id in member_ids]
        for member_id, assigned in zip(member_ids, _shared(partitions, held), strict=True):
            for topic_id, index in assigned:
                result[member_id].setdefault(topic_id, set()).add(index)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in topics.items()}
        for member_id, topics in result.items()
    }


def _pools(
    members: Mapping[str, MemberSpec], assignable: Mapping[Uuid, Collection[int]]
) -> Iterator[tuple[list[_Partition], list[str]]]:
    """Partitions and the members that share them; neither is empty."""
    subscriptions = {member.subscribed_topic_ids for member in members.values()}
    if len(subscriptions) == 1:
        (topic_ids,) = subscriptions
        partitions = [
            (topic_id, index)
            for topic_id, indexes in assignable.items()
            if topic_id in topic_ids
            for index in sorted(indexes)
        ]
        if partitions:
            yield partitions, list(members)
        return
    for topic_id, indexes in assignable.items():
        member_ids = [each for each, member in members.items() if topic_id in member.subscribed_topic_ids]
        if indexes and member_ids:
            yield [(topic_id, index) for index in sorted(indexes)], member_ids


def _shared(partitions: Sequence[_Partition], held: Sequence[Partitions]) -> list[list[_Partition]]:
    """Partitions for each member, by what it holds now."""
    count = len(held)
    sharing = -(-count // len(partitions))
    total = sharing * len(partitions)
    quotas = [-(-total * (at + 1) // count) - -(-total * at // count) for at in range(count)]
    owners: dict[_Partition, list[int]] = {partition: [] for partition in partitions}
    topics = {topic_id for topic_id, _ in partitions}
    several_topics = len(topics) > 1
    for member, (current, quota) in enumerate(zip(held, quotas, strict=True)):
        kept = (
            (topic_id, index)
            for topic_id in (current if several_topics else topics)
            for index in sorted(current.get(topic_id, ()))
        )
        for partition in islice((each for each in kept if each in owners), quota):
            owners[partition].append(member)
    for members in owners.values():
        # The first owners give up a partition that too many have.
        del members[: max(len(members) - sharing, 0)]
    assigned: list[list[_Partition]] = [[] for _ in held]
    for partition, members in owners.items():
        for member in members:
            assigned[member].append(partition)
    _fill(owners, sharing, assigned, quotas)
    return assigned


def _fill(
    owners: Mapping[_Partition, list[int]],
    sharing: int,
    assigned: Sequence[list[_Partition]],
    quotas: Sequence[int],
) -> None:
    """Give members below their quota partitions that too few have, in turns.

    A partition that all of these members have stays with fewer owners; every partition has at least one.
    """
    unfilled = [member for member, quota in enumerate(quotas) if len(assigned[member]) < quota]
    at = 0
    for partition, members in owners.items():
        tried = 0
        while len(members) < sharing and tried < len(unfilled):
            at %= len(unfilled)
            member = unfilled[at]
            if member in members:
                at += 1
                tried += 1
                continue
            members.append(member)
            assigned[member].append(partition)
            tried = 0
            if len(assigned[member]) < quotas[member]:
                at += 1
            else:
                del unfilled[at]
