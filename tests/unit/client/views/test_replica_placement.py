"""Replica plans: complete, spread over racks, balanced, with few copies."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.client.views.replica_placement import ImpossiblePlacement, PlacementRequest, plan_replicas
from ruslo.model.topics import TopicPartition

Assigned = dict[TopicPartition, tuple[int, ...]]


def topic(*replicas: tuple[int, ...], name: str = "t") -> Assigned:
    return {TopicPartition(name, index): each for index, each in enumerate(replicas)}


def no_racks(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def copies(before: Assigned, plan: Assigned) -> int:
    return sum(len(set(after) - set(before[partition])) for partition, after in plan.items())


def drained(current: Assigned, brokers: dict[int, str | None], *leaving: int) -> Assigned:
    staying = {broker: rack for broker, rack in brokers.items() if broker not in leaving}
    return plan_replicas(current, current, PlacementRequest(staying, staying))


def test_draining_moves_only_the_drained_replicas_to_the_least_loaded_broker() -> None:
    current = topic((1, 2), (2, 3), (3, 1), (1, 2), (4, 1))
    plan = drained(current, no_racks(1, 2, 3, 4), 3)
    assert plan == {TopicPartition("t", 1): (2, 4), TopicPartition("t", 2): (4, 1)}


def test_leadership_of_a_drained_broker_is_spread() -> None:
    current = topic(*[(4, 1, 2), (4, 2, 3), (4, 3, 1)])
    plan = drained(current, no_racks(1, 2, 3, 4), 4)
    assert sorted(replicas[0] for replicas in plan.values()) == [1, 2, 3]
    assert copies(current, plan) == 3


def test_draining_needs_enough_other_brokers() -> None:
    with pytest.raises(ImpossiblePlacement, match="3 replicas, but brokers are available for only 2"):
        drained(topic((1, 2, 3)), no_racks(1, 2, 3), 3)


def test_a_new_replica_goes_to_a_rack_without_one() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
    busiest = topic((3,), (3,), (3,), (6,), name="busy")
    current = topic((1, 2, 3)) | busiest
    plan = plan_replicas(
        current,
        topic((1, 2, 3)),
        PlacementRequest({b: r for b, r in racks.items() if b != 3}, [1, 2, 4, 5, 6]),
    )
    assert plan == {TopicPartition("t", 0): (1, 2, 6)}, "broker 6 is in rack c, although 4 and 5 are idle"


def test_more_replicas() -> None:
    current = topic((1,), (2,), (3,))
    brokers = no_racks(1, 2, 3)
    plan = plan_replicas(current, current, PlacementRequest(brokers, brokers, replication_factor=3))
    assert {frozenset(replicas) for replicas in plan.values()} == {frozenset({1, 2, 3})}
    assert [replicas[0] for replicas in plan.values()] == [1, 2, 3], "leaders stay"


def test_fewer_replicas() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b"}
    current = topic((1, 2, 3), (3, 2, 1))
    plan = plan_replicas(current, current, PlacementRequest(racks, racks, replication_factor=2))
    assert plan[TopicPartition("t", 0)] == (1, 3), "the leader stays, and each rack has one replica"
    assert plan[TopicPartition("t", 1)][0] == 3


def test_a_broker_that_is_down_keeps_its_replicas_but_gets_none() -> None:
    current = topic((1, 3), (2, 1))
    plan = plan_replicas(
        current, current, PlacementRequest(no_racks(1, 2), may_stay_on=[1, 2, 3], replication_factor=2)
    )
    assert plan == {}
    fewer = plan_replicas(
        current, current, PlacementRequest(no_racks(1, 2), may_stay_on=[1, 2, 3], replication_factor=1)
    )
    assert fewer == {TopicPartition("t", 0): (1,), TopicPartition("t", 1): (2,)}


def test_topics_spread_over_named_brokers() -> None:
    current = topic(*[(1, 2)] * 6) | topic((3, 1), name="other")
    brokers = no_racks(1, 2, 3)
    plan = plan_replicas(
        current,
        [each for each in current if each.topic == "t"],
        PlacementRequest(brokers, brokers, spread=True),
    )
    after = {**current, **plan}
    mine = [replicas for partition, replicas in after.items() if partition.topic == "t"]
    assert Counter(broker for replicas in mine for broker in replicas) == {1: 4, 2: 4, 3: 4}
    assert Counter(replicas[0] for replicas in mine) == {1: 2, 2: 2, 3: 2}
    assert copies(current, plan) == 4
    assert after[TopicPartition("other", 0)] == (3, 1)


def test_a_balanced_assignment_does_not_change() -> None:
    current = topic((1, 2, 3), (2, 3, 1), (3, 1, 2))
    brokers = no_racks(1, 2, 3)
    assert plan_replicas(current, current, PlacementRequest(brokers, brokers, spread=True)) == {}


@settings(max_examples=150)
@given(
    st.integers(0, 10_000),
    st.integers(2, 7),
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 3),
    st.booleans(),
)
def test_every_plan_is_valid(
    seed: int, brokers: int, factor: int, partitions: int, racks: int, spread: bool
) -> None:
    random = Random(seed)
    ids = list(range(1, brokers + 1))
    racks_by_broker = {broker: random.choice("abc"[:racks]) if racks > 1 else None for broker in ids}
    before = topic(
        *(tuple(random.sample(ids, min(random.randint(1, 4), brokers))) for _ in range(partitions))
    )
    allowed = random.sample(ids, random.randint(1, brokers))
    request = PlacementRequest({b: racks_by_broker[b] for b in allowed}, allowed, factor, spread)
    if factor > len(allowed):
        with pytest.raises(ImpossiblePlacement):
            plan_replicas(before, before, request)
        return
    plan = plan_replicas(before, before, request)
    assert plan_replicas(before, before, request) == plan, "plans are deterministic"
    after = {**before, **plan}
    for partition, replicas in after.items():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(allowed)
        if partition not in plan:
            assert replicas == before[partition]
    if not spread:
        for partition, replicas in after.items():
            kept = [each for each in before[partition] if each in allowed]
            missing = max(factor - len(kept), 0)
            assert len(set(replicas) - set(before[partition])) == missing, "no unnecessary copy"
        return
    known = {rack for broker in allowed if (rack := racks_by_broker[broker]) is not None}
    for replicas in after.values():
        used = {rack for broker in replicas if (rack := racks_by_broker[broker]) is not None}
        assert len(used) == min(len(known), factor), "replicas span as many racks as possible"
    if not known:
        loads = Counter(dict.fromkeys(allowed, 0))
        loads.update(broker for replicas in after.values() for broker in replicas)
        assert max(loads.values()) - min(loads.values()) <= 1
    again = plan_replicas(after, after, request)
    assert again == {}, "an executed plan needs no further move"
