"""range: contiguous runs, the same for topics of the same size."""

from __future__ import annotations

from hypothesis import given, settings

from ruslo.machines.assignors.range import RangeAssignor
from ruslo.machines.assignors.spec import GroupSpec
from tests.support.groups.assignor_specs import group, groups, member, shares, topic

RANGE = RangeAssignor()


def test_first_members_get_one_partition_more() -> None:
    spec = group([topic("t", 7)], [member(each, ["t"]) for each in "cab"])
    assert shares(RANGE, spec) == {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4]}, "c": {"t": [5, 6]}}


def test_equal_topics_are_co_partitioned() -> None:
    spec = group([topic("t", 4), topic("u", 4)], [member(each, ["t", "u"]) for each in "ab"])
    assert shares(RANGE, spec) == {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2, 3], "u": [2, 3]}}


def test_static_members_come_first_by_instance() -> None:
    spec = group(
        [topic("t", 3)],
        [member("a", ["t"]), member("z", ["t"], instance_id="1"), member("y", ["t"], instance_id="2")],
    )
    assert shares(RANGE, spec) == {"z": {"t": [0]}, "y": {"t": [1]}, "a": {"t": [2]}}


def test_more_members_than_partitions() -> None:
    spec = group([topic("t", 1)], [member("a", ["t"]), member("b", ["t"])])
    assert shares(RANGE, spec) == {"a": {"t": [0]}, "b": {}}


def test_only_subscribers_count() -> None:
    spec = group([topic("t", 4), topic("u", 2)], [member("a", ["t"]), member("b", ["t", "u"])])
    assert shares(RANGE, spec) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3], "u": [0, 1]}}


def test_member_ids_sort_by_utf_16_units() -> None:
    """Java compares UTF-16 units: supplementary characters sort before the last ones of the basic plane."""
    spec = group([topic("t", 2)], [member("\uffee", ["t"]), member("\U0001f5c4", ["t"])])
    assert shares(RANGE, spec) == {"\U0001f5c4": {"t": [0]}, "\uffee": {"t": [1]}}


@settings(max_examples=25)
@given(spec=groups())
def test_runs_are_contiguous_and_even(spec: GroupSpec) -> None:
    for name in {each.name for each in spec.topics.values()}:
        runs = [topics[name] for topics in shares(RANGE, spec).values() if name in topics]
        for run in runs:
            assert run == list(range(run[0], run[0] + len(run)))
        if runs:
            assert max(map(len, runs)) - min(map(len, runs)) <= 1
