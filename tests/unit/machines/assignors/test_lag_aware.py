"""lag-aware: balances the total lag of members."""

from __future__ import annotations

from ruslo.machines.assignors.lag_aware import LagAwareAssignor
from tests.support.groups.assignor_specs import group, member, shares, topic

LAG_AWARE = LagAwareAssignor()


def test_heavy_partition_gets_a_member_of_its_own() -> None:
    spec = group([topic("t", 5, lags=[10_000, 0, 0, 0, 0])], [member("a", ["t"]), member("b", ["t"])])
    assert shares(LAG_AWARE, spec) == {"a": {"t": [0]}, "b": {"t": [1, 2, 3, 4]}}


def test_equal_lags_are_divided_evenly() -> None:
    for lags in ([7] * 6, [0] * 6, [-1] * 6, []):
        spec = group([topic("t", 6, lags=lags)], [member(each, ["t"]) for each in "abc"])
        assert {len(topics["t"]) for topics in shares(LAG_AWARE, spec).values()} == {2}


def test_unknown_lag_counts_as_average() -> None:
    spec = group([topic("t", 4, lags=[100, -1, 100, 100])], [member("a", ["t"]), member("b", ["t"])])
    assert {len(topics["t"]) for topics in shares(LAG_AWARE, spec).values()} == {2}


def test_small_differences_move_no_partitions() -> None:
    spec = group(
        [topic("t", 4, lags=[103, 100, 99, 101])],
        [member("a", ["t"], {"t": [0, 1]}), member("b", ["t"], {"t": [2, 3]})],
    )
    assert shares(LAG_AWARE, spec) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_large_differences_move_only_the_needed_partitions() -> None:
    spec = group(
        [topic("t", 4, lags=[5_000, 5_000, 0, 0])],
        [member("a", ["t"], {"t": [0, 1]}), member("b", ["t"], {"t": [2, 3]})],
    )
    result = shares(LAG_AWARE, spec)
    assert all(len(set(topics["t"]) & {0, 1}) == 1 for topics in result.values())
    assert LAG_AWARE.needs_lag
