"""The simple assignor of share groups: every partition has members, members are balanced, and few move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ruslo.machines.assignors.simple import assign
from ruslo.machines.assignors.spec import MemberSpec, Partitions
from ruslo.model.ids import Uuid

ORDERS, PARCELS = bytes(15) + b"\x01", bytes(15) + b"\x02"
TOPICS = [bytes(15) + bytes([number]) for number in range(1, 5)]


def members(count: int, *topics: Uuid) -> dict[str, MemberSpec]:
    return {f"m{at}": MemberSpec(f"m{at}", frozenset(topics)) for at in range(count)}


def shares(assignment: Mapping[str, Partitions], topic_id: Uuid = ORDERS) -> dict[str, list[int]]:
    return {member_id: sorted(held.get(topic_id, ())) for member_id, held in assignment.items()}


def with_current(
    group: Mapping[str, MemberSpec], assignment: Mapping[str, Partitions]
) -> dict[str, MemberSpec]:
    return {each: replace(member, current=assignment.get(each, {})) for each, member in group.items()}


def test_partitions_go_to_one_member_after_the_other() -> None:
    assert shares(assign(members(2, ORDERS), {ORDERS: range(5)})) == {"m0": [0, 2, 4], "m1": [1, 3]}


def test_more_members_than_partitions_share_them() -> None:
    assert shares(assign(members(5, ORDERS), {ORDERS: range(2)})) == {
        "m0": [0, 1],
        "m1": [0],
        "m2": [0],
        "m3": [1],
        "m4": [1],
    }


def test_partitions_that_are_not_assignable_are_left_out() -> None:
    group = with_current(members(1, ORDERS), {"m0": {ORDERS: frozenset({1, 7})}})
    assert shares(assign(group, {ORDERS: [0, 1]})) == {"m0": [0, 1]}
    assert assign(group, {}) == {"m0": {}}


def test_a_member_that_joins_takes_only_its_part() -> None:
    before = assign(members(2, ORDERS), {ORDERS: range(6)})
    after = assign(with_current(members(3, ORDERS), before), {ORDERS: range(6)})
    assert shares(before) == {"m0": [0, 2, 4], "m1": [1, 3, 5]}
    assert shares(after) == {"m0": [0, 2], "m1": [1, 3], "m2": [4, 5]}


def test_topics_of_different_subscriptions_are_balanced_each_on_its_own() -> None:
    group = {
        "both": MemberSpec("both", frozenset({ORDERS, PARCELS})),
        "one": MemberSpec("one", frozenset({ORDERS})),
    }
    assignment = assign(group, {ORDERS: range(2), PARCELS: range(3)})
    assert shares(assignment) == {"both": [0], "one": [1]}
    assert shares(assignment, PARCELS) == {"both": [0, 1, 2], "one": []}


def test_without_members_there_is_nothing_to_assign() -> None:
    assert assign({}, {ORDERS: range(2)}) == {}


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, MemberSpec], dict[Uuid, range]]:
    topics = {topic_id: range(draw(st.integers(0, 6))) for topic_id in TOPICS[: draw(st.integers(1, 4))]}
    everything = frozenset(topics)
    homogeneous = draw(st.booleans())
    group: dict[str, MemberSpec] = {}
    for at in range(draw(st.integers(1, 9))):
        subscribed = everything if homogeneous else draw(st.frozensets(st.sampled_from(sorted(topics))))
        held = draw(
            st.dictionaries(st.sampled_from(TOPICS), st.frozensets(st.integers(0, 7), min_size=1), max_size=3)
        )
        group[f"m{at}"] = MemberSpec(f"m{at}", subscribed, held)
    return group, topics


@given(groups())
def test_any_assignment_is_complete_balanced_and_stable(
    case: tuple[dict[str, MemberSpec], dict[Uuid, range]],
) -> None:
    group, topics = case
    assignment = assign(group, topics)
    homogeneous = len({member.subscribed_topic_ids for member in group.values()}) == 1
    for topic_id, partitions in topics.items():
        subscribers = [each for each, member in group.items() if topic_id in member.subscribed_topic_ids]
        owners = Counter(index for each in group for index in assignment[each].get(topic_id, ()))
        assert set(owners) == (set(partitions) if subscribers else set())
        assert {each for each in group if topic_id in assignment[each]} <= set(subscribers)
        if subscribers and partitions and not homogeneous:
            assert max(owners.values()) <= -(-len(subscribers) // len(partitions))
            sizes = [len(assignment[each].get(topic_id, ())) for each in subscribers]
            assert max(sizes) <= -(-max(len(partitions), len(subscribers)) // len(subscribers)) + 1
    # Computed again, nothing moves.
    assert assign(with_current(group, assignment), topics) == assignment or _is_refill(
        group, topics, assignment
    )


def _is_refill(
    group: Mapping[str, MemberSpec], topics: Mapping[Uuid, range], assignment: Mapping[str, Partitions]
) -> bool:
    """A partition that all unfilled members had may get its missing member now; no member loses one."""
    again = assign(with_current(group, assignment), topics)
    return all(
        assignment[each].get(topic_id, frozenset()) <= again[each].get(topic_id, frozenset())
        for each in group
        for topic_id in topics
    )
