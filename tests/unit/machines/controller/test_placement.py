"""Placement: which brokers get the replicas of new partitions."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.machines.controller.broker_image import BrokerImage
from ruslo.machines.controller.placement import place_replicas
from ruslo.model.errors import ErrorCode, KafkaError
from tests.support.machines.controller_bench import numbered_uuid


def broker(
    broker_id: int, rack: str | None = None, *, fenced: bool = False, cordoned: bool = False
) -> BrokerImage:
    directory = numbered_uuid(broker_id)
    return BrokerImage(
        id=broker_id,
        epoch=1,
        incarnation_id=directory,
        endpoints=(),
        features={},
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=False,
        log_dirs=(directory,),
        cordoned_log_dirs=(directory,) if cordoned else (),
    )


def assign(brokers: list[BrokerImage], partitions: int, replicas: int, seed: int = 0) -> list[list[int]]:
    return list(place_replicas(brokers, partitions, replicas, Random(seed)))


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9),
    st.integers(1, 30),
    st.integers(1, 9),
    st.integers(0, 5),
)
def test_placement_rules(
    nodes: list[tuple[str | None, bool]], partitions: int, replicas: int, seed: int
) -> None:
    brokers = [broker(index, rack, fenced=fenced) for index, (rack, fenced) in enumerate(nodes)]
    by_id = {each.id: each for each in brokers}
    if replicas > len(brokers) or all(each.fenced for each in brokers):
        with pytest.raises(KafkaError) as caught:
            assign(brokers, partitions, replicas, seed)
        assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        return
    assignments = assign(brokers, partitions, replicas, seed)
    assert len(assignments) == partitions
    racks = {each.rack or "" for each in brokers}
    for assignment in assignments:
        assert len(set(assignment)) == len(assignment) == replicas
        assert not by_id[assignment[0]].fenced, "the leader is not fenced"
        used = Counter(by_id[each].rack or "" for each in assignment)
        assert len(used) == min(len(racks), replicas), "replicas spread over as many racks as possible"


def test_leaders_and_replicas_are_spread_evenly() -> None:
    brokers = [broker(index, "abc"[index % 3]) for index in range(6)]
    assignments = assign(brokers, 600, 3)
    leaders = Counter(assignment[0] for assignment in assignments)
    replicas = Counter(each for assignment in assignments for each in assignment)
    assert set(leaders.values()) == {100}
    assert set(replicas.values()) == {300}


def test_followers_of_one_leader_differ() -> None:
    assignments = assign([broker(index) for index in range(6)], 600, 2)
    assert len({tuple(assignment) for assignment in assignments}) == 30, "every pair of brokers occurs"


def test_cordoned_brokers_get_no_replicas() -> None:
    brokers = [broker(1), broker(2, cordoned=True)]
    assert assign(brokers, 3, 1) == [[1]] * 3
    with pytest.raises(KafkaError):
        assign(brokers, 1, 2)
