"""Assignors and topic hashes compared with Kafka's own classes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ruslo.machines.assignors.range import RangeAssignor
from ruslo.machines.assignors.simple import assign as assign_shared
from ruslo.machines.assignors.spec import Assignor, GroupSpec, MemberSpec, TopicSpec
from ruslo.machines.assignors.uniform import UniformAssignor
from ruslo.machines.groups.consumer.topic_hash import group_hash, topic_hash
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.model.ids import Uuid
from tests.interop.oracle import JavaOracle

Shares = dict[str, dict[str, list[int]]]


class Oracle(JavaOracle):
    """One JVM that assigns and hashes as Kafka does."""

    def query(self, request: dict[str, Any]) -> dict[str, Any]:
        response: dict[str, Any] = json.loads(self.exchange(json.dumps(request)))
        return response

    def assign(self, assignor: str, group: GroupSpec) -> tuple[list[str], Shares]:
        response = self.query(
            {
                "assignor": assignor,
                "homogeneous": group.homogeneous,
                "topics": {topic_id.hex(): topic.partition_count for topic_id, topic in group.topics.items()},
                "members": [
                    {
                        "id": member.member_id,
                        "instance": member.instance_id,
                        "topics": [topic_id.hex() for topic_id in member.subscribed_topic_ids],
                        "current": {topic.hex(): sorted(held) for topic, held in member.current.items()},
                    }
                    for member in group.members.values()
                ],
            }
        )
        return response["order"], response["assignment"]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("AssignorsOracle") as oracle:
        yield oracle


def _shares(assignor: Assignor, group: GroupSpec) -> Shares:
    return {
        member_id: {topic_id.hex(): sorted(held) for topic_id, held in partitions.items()}
        for member_id, partitions in assignor.assign(group).items()
    }


def _random_group(random: Random, *, homogeneous: bool) -> GroupSpec:
    topics = [
        TopicSpec(random.randbytes(16), f"topic-{number}", random.choice([1, 2, 3, 7, 16, 31]))
        for number in range(random.randint(1, 6))
    ]
    all_partitions = frozenset(topic.topic_id for topic in topics)
    members: dict[str, MemberSpec] = {}
    for number in range(random.randint(1, 9)):
        subscribed = all_partitions
        if not homogeneous:
            subscribed = frozenset(
                random.sample(sorted(all_partitions), random.randint(0, len(all_partitions)))
            )
        member_id = f"member-{random.randint(0, 10**6)}-{number}"
        instance_id = f"instance-{random.randint(0, 99)}-{number}" if random.random() < 0.3 else None
        members[member_id] = MemberSpec(member_id, subscribed, {}, instance_id)
    return _with_held(
        random, GroupSpec("g", members, {topic.topic_id: topic for topic in topics}, homogeneous)
    )


def _with_held(random: Random, group: GroupSpec) -> GroupSpec:
    """A current assignment that is unbalanced and includes topics the owner no longer subscribes to."""
    held: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in group.members}
    favourites = random.sample(list(group.members), random.randint(1, len(group.members)))
    occupied = random.choice([0.0, 0.3, 0.9, 1.0])
    for topic_id, topic in group.topics.items():
        for partition in range(topic.partition_count):
            if random.random() < occupied:
                held[random.choice(favourites)].setdefault(topic_id, set()).add(partition)
    members = {
        member_id: MemberSpec(
            member_id,
            member.subscribed_topic_ids,
            {topic_id: frozenset(partitions) for topic_id, partitions in held[member_id].items()},
            member.instance_id,
        )
        for member_id, member in group.members.items()
    }
    return GroupSpec(group.group_id, members, group.topics, group.homogeneous)


@pytest.mark.parametrize("homogeneous", [True, False], ids=["same topics", "mixed topics"])
@pytest.mark.parametrize("seed", range(150))
def test_uniform_is_kafkas(oracle: Oracle, seed: int, homogeneous: bool) -> None:
    group = _random_group(Random(seed), homogeneous=homogeneous)
    order, expected = oracle.assign("uniform", group)
    if homogeneous:
        # Kafka iterates over topics in the order of a hash set, Ruslo in the given order.
        in_order = {bytes.fromhex(topic_id): group.topics[bytes.fromhex(topic_id)] for topic_id in order}
        group = GroupSpec(group.group_id, group.members, in_order, homogeneous)
    elif not any(member.subscribed_topic_ids for member in group.members.values()):
        assert expected == {}
        expected = {member_id: {} for member_id in group.members}
    assert _shares(UniformAssignor(), group) == expected


@pytest.mark.parametrize("homogeneous", [True, False], ids=["same topics", "mixed topics"])
@pytest.mark.parametrize("seed", range(150))
def test_range_is_kafkas(oracle: Oracle, seed: int, homogeneous: bool) -> None:
    group = _random_group(Random(seed), homogeneous=homogeneous)
    assert _shares(RangeAssignor(), group) == oracle.assign("range", group)[1]


@pytest.mark.parametrize("homogeneous", [True, False], ids=["same topics", "mixed topics"])
@pytest.mark.parametrize("seed", range(100))
def test_simple_shares_as_much_as_kafkas(oracle: Oracle, seed: int, homogeneous: bool) -> None:
    """Kafka iterates over hash sets, so members may get other partitions, but as many.

    Kafka stops early in rare cases: a member gets fewer than it could.
    """
    random = Random(seed)
    group = _random_group(random, homogeneous=homogeneous)
    idle = {each: replace(member, current={}) for each, member in group.members.items()}
    group = _with_members(group, idle)
    before = _simple(group)
    if homogeneous:
        assert _sizes(before) == _sizes(oracle.assign("simple", group)[1])
    else:
        assert before == _without_empty(oracle.assign("simple", group)[1], group)
    changed = _with_members(
        group,
        {
            each: replace(member, current=assign_shared(group.members, _partitions_of(group))[each])
            for each, member in group.members.items()
            if random.random() < 0.8
        },
    )
    if changed.members:
        ours, theirs = _sizes(_simple(changed)), _sizes(oracle.assign("simple", changed)[1])
        assert all(ours[member_id] >= size for member_id, size in theirs.items())


def _simple(group: GroupSpec) -> Shares:
    return {
        member_id: {topic_id.hex(): sorted(held) for topic_id, held in partitions.items()}
        for member_id, partitions in assign_shared(group.members, _partitions_of(group)).items()
    }


def _partitions_of(group: GroupSpec) -> dict[Uuid, range]:
    return {topic_id: range(topic.partition_count) for topic_id, topic in group.topics.items()}


def _with_members(group: GroupSpec, members: dict[str, MemberSpec]) -> GroupSpec:
    return GroupSpec(group.group_id, members, group.topics, group.homogeneous)


def _without_empty(shares: Shares, group: GroupSpec) -> Shares:
    return {
        member_id: {topic: held for topic, held in shares.get(member_id, {}).items() if held}
        for member_id in group.members
    }


def _sizes(shares: Shares) -> dict[str, int]:
    return {member_id: sum(map(len, topics.values())) for member_id, topics in shares.items()}


def test_topic_and_group_hashes_are_kafkas(oracle: Oracle) -> None:
    random = Random(7)
    racks = ["rack-a", "b", "стойка", "\U0001f5c4", "\uffee"]
    names = ["a", "b.c_d-e", "x" * 249, "payments", "z"]
    topics = [
        TopicInfo(
            name,
            random.randbytes(16),
            count,
            tuple(frozenset(random.sample(racks, random.randint(0, 4))) for _ in range(count)),
        )
        for name, count in zip(names, [1, 3, 40, 12, 200], strict=True)
    ]
    response = oracle.query(
        {
            "hash": [
                {"id": topic.id.hex(), "name": topic.name, "racks": [list(names) for names in topic.racks]}
                for topic in topics
            ]
        }
    )
    assert [topic_hash(topic) for topic in topics] == [int(hashed) for hashed in response["topics"]]
    assert group_hash((topic.name, topic_hash(topic)) for topic in topics) == int(response["group"])
    assert oracle.query({"hash": []}) == {"topics": [], "group": str(group_hash([]))}
