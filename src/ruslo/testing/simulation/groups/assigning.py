"""Assignors of classic clients, which the leader of the group runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ruslo.model.topics import TopicPartition

Assigned: TypeAlias = dict[str, set[TopicPartition]]
"""Partitions by member id."""


class Subscriber(NamedTuple):
    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    generation: int
    """The generation in which the member got its partitions."""


def assign_range(subscribers: Iterable[Subscriber], partition_counts: Mapping[str, int]) -> Assigned:
    """Assign a contiguous range of each topic's partitions to each subscriber."""
    ordered = sorted(
        subscribers, key=lambda each: (each.instance_id is None, each.instance_id, each.member_id)
    )
    assigned: Assigned = {each.member_id: set() for each in ordered}
    for topic, count in partition_counts.items():
        readers = [each.member_id for each in ordered if topic in each.topics]
        for at, reader in enumerate(readers):
            first, end = at * count // len(readers), (at + 1) * count // len(readers)
            assigned[reader].update(TopicPartition(topic, number) for number in range(first, end))
    return assigned


def assign_cooperative(subscribers: Iterable[Subscriber], partition_counts: Mapping[str, int]) -> Assigned:
    """Balance with few moves; a partition that moves is not assigned until its owner revokes it (KIP-429)."""
    members = sorted(subscribers, key=lambda each: each.member_id)
    tps = {TopicPartition(topic, number) for topic, n in partition_counts.items() for number in range(n)}
    owners = _owners(members)
    assigned: Assigned = {each.member_id: set() for each in members}
    for tp in sorted(tps):
        owner = owners.get(tp)
        if owner is not None and tp.topic in owner.topics:
            assigned[owner.member_id].add(tp)
    for tp in sorted(tps - set().union(*assigned.values())):
        readers = [each.member_id for each in members if tp.topic in each.topics]
        if readers:
            assigned[min(readers, key=lambda reader: len(assigned[reader]))].add(tp)
    _balance(members, assigned)
    for each in members:
        given = assigned[each.member_id]
        given -= {tp for tp in given if tp in owners and owners[tp] is not each}
    return assigned


def _owners(members: list[Subscriber]) -> dict[TopicPartition, Subscriber]:
    """The owner of each partition; of two members that claim it, the one of the later generation."""
    owners: dict[TopicPartition, Subscriber] = {}
    for member in members:
        for tp in member.owned:
            if tp not in owners or owners[tp].generation < member.generation:
                owners[tp] = member
    return owners


def _balance(members: list[Subscriber], assigned: Assigned) -> None:
    """Move partitions from members with at least two more than another subscriber."""
    moved = True
    while moved:
        moved = False
        for poor in members:
            for rich in members:
                if len(assigned[rich.member_id]) < len(assigned[poor.member_id]) + 2:
                    continue
                movable = sorted(p for p in assigned[rich.member_id] if p.topic in poor.topics)
                if movable:
                    assigned[rich.member_id].remove(movable[-1])
                    assigned[poor.member_id].add(movable[-1])
                    moved = True
