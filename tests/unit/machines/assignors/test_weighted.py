"""weighted: shares follow the weights in the members' client ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from ruslo.machines.assignors.spec import GroupSpec
from ruslo.machines.assignors.weighted import WeightedAssignor, weight_of
from tests.support.groups.assignor_specs import group, groups, held, member, shares, topic

WEIGHTED = WeightedAssignor()


@pytest.mark.parametrize(
    ("client_id", "weight"),
    [
        ("", 1.0),
        ("billing", 1.0),
        ("weight=3", 3.0),
        ("billing-7;weight=2.5", 2.5),
        ("weight=2-eu", 2.0),
        ("weight=0", 0.01),
        ("weight=99999", 1000.0),
        ("overweight=3", 1.0),
        ("weight=many", 1.0),
        ("weight=1.2.3", 1.0),
    ],
)
def test_weights_in_client_ids(client_id: str, weight: float) -> None:
    assert weight_of(client_id) == weight


def test_shares_follow_weights() -> None:
    spec = group(
        [topic("t", 12)],
        [
            member("small", ["t"]),
            member("big", ["t"], client_id="app;weight=3"),
            member("tiny", ["t"], client_id="weight=0.01"),
        ],
    )
    counts = {each: len(topics.get("t", ())) for each, topics in shares(WEIGHTED, spec).items()}
    assert counts == {"small": 3, "big": 9, "tiny": 0}


def test_equal_weights_are_balanced_and_sticky() -> None:
    spec = group(
        [topic("t", 6)],
        [member("a", ["t"], {"t": [1, 3, 5]}), member("b", ["t"], {"t": [0, 2, 4]}), member("c", ["t"])],
    )
    result = shares(WEIGHTED, spec)
    assert set(result["a"]["t"]) < {1, 3, 5}
    assert set(result["b"]["t"]) < {0, 2, 4}
    assert len(result["c"]["t"]) == 2


@settings(max_examples=25)
@given(spec=groups(homogeneous=True))
def test_no_member_is_off_by_more_than_two_partitions(spec: GroupSpec) -> None:
    after = held(spec, WEIGHTED.assign(spec))
    weights = {each.member_id: weight_of(each.client_id) for each in spec.members.values()}
    total, weight = sum(map(len, after.values())), sum(weights.values())
    for member_id, partitions in after.items():
        assert abs(len(partitions) - total * weights[member_id] / weight) < 2
