"""uniform: balanced first, then sticky. An interop test compares it with Apache Kafka's assignor."""

from __future__ import annotations

from hypothesis import given, settings

from ruslo.machines.assignors.levels import Levels
from ruslo.machines.assignors.spec import GroupSpec
from ruslo.machines.assignors.uniform import UniformAssignor
from tests.support.groups.assignor_specs import group, groups, held, member, shares, topic

UNIFORM = UniformAssignor()


def test_shares_differ_by_at_most_one() -> None:
    spec = group([topic("t", 7)], [member(each, ["t"]) for each in "abc"])
    assert shares(UNIFORM, spec) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}, "c": {"t": [4, 5, 6]}}


def test_new_member_moves_few_partitions() -> None:
    spec = group(
        [topic("t", 6)],
        [member("a", ["t"], {"t": [0, 1, 2]}), member("b", ["t"], {"t": [3, 4, 5]}), member("c", ["t"])],
    )
    assert shares(UNIFORM, spec) == {"a": {"t": [0, 1]}, "b": {"t": [3, 4]}, "c": {"t": [2, 5]}}


def test_partitions_of_a_leaving_member_are_spread() -> None:
    spec = group([topic("t", 6)], [member("a", ["t"], {"t": [0, 1]}), member("b", ["t"], {"t": [2, 3]})])
    assert shares(UNIFORM, spec) == {"a": {"t": [0, 1, 4]}, "b": {"t": [2, 3, 5]}}


def test_larger_quota_stays_with_its_owner() -> None:
    spec = group([topic("t", 3)], [member("a", ["t"], {"t": [0]}), member("b", ["t"], {"t": [1, 2]})])
    assert shares(UNIFORM, spec) == {"a": {"t": [0]}, "b": {"t": [1, 2]}}


def test_mixed_subscriptions_are_balanced() -> None:
    spec = group(
        [topic("t", 4), topic("u", 4)],
        [member("a", ["t"]), member("b", ["t", "u"], {"t": [0, 1, 2, 3]}), member("c", ["u"])],
    )
    result = shares(UNIFORM, spec)
    counts = {each: sum(map(len, topics.values())) for each, topics in result.items()}
    assert sorted(counts.values()) == [2, 3, 3]


@settings(max_examples=25)
@given(spec=groups(homogeneous=True))
def test_balanced_and_sticky_for_equal_subscriptions(spec: GroupSpec) -> None:
    after = held(spec, UNIFORM.assign(spec))
    counts = [len(partitions) for partitions in after.values()]
    assert max(counts) - min(counts) <= 1
    share, longer = divmod(sum(counts), len(counts))
    before = held(spec, {each.member_id: each.current for each in spec.members.values()})
    # No assignment is stickier: every member keeps its quota, and members that use the larger quotas keep
    # them.
    possible = sum(min(len(partitions), share) for partitions in before.values())
    possible += min(longer, sum(len(partitions) > share for partitions in before.values()))
    assert sum(len(before[each] & after[each]) for each in spec.members) == possible


@settings(max_examples=25)
@given(spec=groups(homogeneous=False))
def test_no_single_move_improves_the_balance(spec: GroupSpec) -> None:
    after = held(spec, UNIFORM.assign(spec))
    for largest, partitions in after.items():
        for topic_id, _ in partitions:
            for smallest, other in spec.members.items():
                if topic_id in other.subscribed_topic_ids:
                    assert len(partitions) - len(after[smallest]) <= 1, (largest, smallest)


def test_levels_fill_and_drain_by_plateaus() -> None:
    loads = [3, 1, 1, 5]
    levels = Levels(loads, range(4))
    assert levels.spread == 4
    order = []
    for _ in range(5):
        lowest = levels.take_lowest()
        loads[lowest] += 1
        order.append(lowest)
    assert order == [1, 2, 1, 2, 1]
    assert loads == [3, 4, 3, 5]

    loads = [3, 1, 1, 5]
    levels = Levels(loads, range(4))
    highest = levels.take_highest()
    assert highest == 3
    levels.drop_highest()
    assert levels.take_highest() == 0
    assert not levels.even
