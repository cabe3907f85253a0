"""highly_available: stateful tasks only move to processes that have caught up (KIP-441)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from ruslo.machines.assignors.streams.highly_available import HighlyAvailableTaskAssignor
from ruslo.machines.assignors.streams.model import GroupSpec, Topology
from ruslo.machines.assignors.streams.recovery_lags import UNBOUNDED
from tests.support.groups.task_specs import (
    check,
    continued,
    fresh_groups,
    group,
    groups,
    member,
    moved_active,
    process_loads,
    settled,
    shown,
    topologies,
    topology,
)

HA = HighlyAvailableTaskAssignor()


def test_empty_group_has_no_assignment() -> None:
    assert HA.assign(group(), topology(s0=2)) == {}


def test_stateful_and_stateless_tasks_are_balanced_separately() -> None:
    spec = group(member("a"), member("b"))
    assert shown(HA.assign(spec, topology(s0=2, t1=2))) == {"a": "s0_0 t1_0", "b": "s0_1 t1_1"}


def test_new_process_restores_warmup_tasks_before_it_gets_active_ones() -> None:
    spec = group(member("a", "s0_0 s0_1 s0_2 s0_3"), member("b"))
    layout = topology(s0=4)
    first = HA.assign(spec, layout)
    assert shown(first) == {"a": "s0_0 s0_1 s0_2 s0_3", "b": "- | - | s0_2 s0_3"}
    restoring = continued(spec, first, lag=10_001)
    assert HA.assign(restoring, layout) == first
    caught_up = continued(spec, first, lag=10_000)
    assert shown(HA.assign(caught_up, layout)) == {"a": "s0_0 s0_1", "b": "s0_2 s0_3"}


def test_warmup_tasks_are_limited_and_those_that_have_begun_continue() -> None:
    spec = group(member("a", "s0_0 s0_1 s0_2 s0_3"), member("b"), warmups=1)
    layout = topology(s0=4)
    first = HA.assign(spec, layout)
    assert shown(first) == {"a": "s0_0 s0_1 s0_2 s0_3", "b": "- | - | s0_2"}
    assert HA.assign(continued(spec, first, lag=50_000), layout) == first
    second = HA.assign(continued(spec, first, lag=0), layout)
    assert shown(second) == {"a": "s0_0 s0_1 s0_3", "b": "s0_2 | - | s0_3"}


def test_without_warmup_tasks_nothing_moves() -> None:
    spec = group(member("a", "s0_0 s0_1"), member("b"), warmups=0)
    assert shown(HA.assign(spec, topology(s0=2))) == {"a": "s0_0 s0_1", "b": "-"}


def test_threads_of_one_process_are_levelled_without_warmup_tasks() -> None:
    spec = group(member("a1", "s0_0 s0_1 s0_2 s0_3", process="a"), member("a2", process="a"), warmups=0)
    assert shown(HA.assign(spec, topology(s0=4))) == {"a1": "s0_0 s0_1", "a2": "s0_2 s0_3"}


def test_stateless_tasks_move_at_once() -> None:
    spec = group(member("a", "t0_0 t0_1"), member("b"))
    assert shown(HA.assign(spec, topology(t0=2))) == {"a": "t0_0", "b": "t0_1"}


def test_unbounded_lag_is_always_acceptable() -> None:
    spec = replace(group(member("a", "s0_0 s0_1"), member("b")), acceptable_recovery_lag=UNBOUNDED)
    assert shown(HA.assign(spec, topology(s0=2))) == {"a": "s0_0", "b": "s0_1"}


def test_member_that_reports_no_offsets_gets_no_warmup_task() -> None:
    spec = group(member("a", "s0_0 s0_1"), member("b", reports_offsets=False))
    assert shown(HA.assign(spec, topology(s0=2))) == {"a": "s0_0", "b": "s0_1"}


def test_caught_up_standby_takes_over_from_a_member_that_left() -> None:
    spec = group(
        member("a", "s0_0", "s0_1", lags={"s0_1": 20_000}),
        member("b", "s0_2", "s0_1", lags={"s0_1": 5}),
        member("c", "s0_3"),
        standbys=1,
    )
    assert "s0_1" in shown(HA.assign(spec, topology(s0=4)))["b"].split(" | ")[0]


def test_caught_up_process_gets_a_task_beyond_its_share_for_the_time_being() -> None:
    spec = group(member("a", "s0_0 s0_1", "s0_2", lags={"s0_2": 5}), member("b", "s0_3"), standbys=1)
    assert shown(HA.assign(spec, topology(s0=4))) == {
        "a": "s0_0 s0_1 s0_2 | s0_3",
        "b": "s0_3 | s0_0 s0_1 s0_2",
    }


def test_nearly_restored_process_is_better_than_one_without_state() -> None:
    spec = group(member("a", lags={"s0_0": 400_000}), member("b", lags={"s0_0": 300_000}))
    assert shown(HA.assign(spec, topology(s0=1))) == {"a": "-", "b": "s0_0"}


def test_state_beyond_the_end_of_the_changelog_counts_as_none() -> None:
    spec = group(member("a", lags={"s0_0": -7}), member("b", lags={"s0_0": 9_000}))
    assert shown(HA.assign(spec, topology(s0=1))) == {"a": "-", "b": "s0_0"}


def test_active_task_that_is_still_restoring_moves_to_a_caught_up_process() -> None:
    spec = group(member("a", "s0_0", lags={"s0_0": 800_000}), member("b", "", "s0_0", lags={"s0_0": 0}))
    assert shown(HA.assign(spec, topology(s0=1))) == {"a": "- | - | s0_0", "b": "s0_0"}


def test_standby_tasks_are_in_other_zones() -> None:
    zones = {"a": "z1", "b": "z1", "c": "z2", "d": "z3"}
    members = [member(each, tags={"zone": zone, "host": each}) for each, zone in zones.items()]
    spec = group(*members, standbys=2, tags=["zone"])
    for task in topology(s0=8).tasks():
        assigned = HA.assign(spec, topology(s0=8))
        holders = [each for each in zones if task in assigned[each].active | assigned[each].standby]
        assert sorted(zones[each] for each in holders) == ["z1", "z2", "z3"]


def test_racks_serve_as_tags_if_none_are_configured() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r2"}
    spec = group(*(member(each, rack=rack) for each, rack in racks.items()), standbys=1)
    for each, found in HA.assign(spec, topology(s0=6)).items():
        for other, theirs in HA.assign(spec, topology(s0=6)).items():
            if found.active & theirs.standby:
                assert racks[each] != racks[other]


def test_first_tag_matters_most() -> None:
    tags = [("a", "z1", "c1"), ("b", "z2", "c1"), ("c", "z1", "c2")]
    members = [member(each, tags={"zone": zone, "cluster": cluster}) for each, zone, cluster in tags]
    members[0] = replace(members[0], active=frozenset(topology(s0=1).tasks()))
    spec = group(*members, standbys=1, tags=["cluster", "zone"])
    assert shown(HA.assign(spec, topology(s0=1))) == {"a": "s0_0", "b": "-", "c": "- | s0_0"}


@settings(max_examples=100)
@given(groups())
def test_every_assignment_is_complete_and_separates_copies(drawn: tuple[GroupSpec, Topology]) -> None:
    spec, layout = drawn
    assignment = HA.assign(spec, layout)
    check(spec, layout, assignment)
    assert HA.assign(spec, layout) == assignment
    process_count = len({each.process_id for each in spec.members.values()})
    replicas = min(spec.num_standby_replicas, process_count - 1)
    wanted = replicas * len(list(layout.tasks(stateful_only=True)))
    warmup_count = sum(len(each.warmup) for each in assignment.values())
    standby_count = sum(len(each.standby) for each in assignment.values())
    assert warmup_count <= spec.max_warmup_replicas
    assert wanted <= standby_count <= wanted + spec.max_warmup_replicas - warmup_count


@settings(max_examples=100)
@given(groups())
def test_active_tasks_are_on_caught_up_processes(drawn: tuple[GroupSpec, Topology]) -> None:
    spec, layout = drawn
    assignment = HA.assign(spec, layout)
    caught_up: dict[object, set[str]] = {}
    for each in spec.members.values():
        for task, offset in each.task_offsets.items():
            if each.task_end_offsets[task] - offset <= spec.acceptable_recovery_lag:
                caught_up.setdefault(task, set()).add(each.process_id)
        for task in each.active - set(each.task_offsets):
            caught_up.setdefault(task, set()).add(each.process_id)
    unobservable = {each.process_id for each in spec.members.values() if not each.reports_offsets}
    stateful = set(layout.tasks(stateful_only=True))
    for member_id, target in assignment.items():
        process = spec.members[member_id].process_id
        for task in target.active & stateful:
            assert process in caught_up.get(task, {process}) | unobservable


@settings(max_examples=60)
@given(groups())
def test_group_comes_to_rest_in_balance(drawn: tuple[GroupSpec, Topology]) -> None:
    spec, layout = drawn
    spec = replace(spec, max_warmup_replicas=max(1, spec.max_warmup_replicas))
    spec = replace(
        spec, members={key: replace(each, reports_offsets=True) for key, each in spec.members.items()}
    )
    at_rest = settled(HA, spec, layout)
    assignment = HA.assign(at_rest, layout)
    check(at_rest, layout, assignment)
    assert not any(each.warmup for each in assignment.values())
    counts = [len(each.active & set(layout.tasks(stateful_only=True))) for each in assignment.values()]
    assert max(counts) - min(counts) <= 1


@settings(max_examples=40)
@given(fresh_groups(), topologies())
def test_first_assignment_is_balanced(spec: GroupSpec, layout: Topology) -> None:
    loads = process_loads(spec, HA.assign(spec, layout), active_only=True)
    assert max(loads.values()) - min(loads.values()) <= 1


@settings(max_examples=40)
@given(fresh_groups(), topologies())
def test_only_the_stateful_tasks_of_a_lost_member_move(spec: GroupSpec, layout: Topology) -> None:
    before = continued(spec, HA.assign(spec, layout), lag=0)
    assert moved_active(before, HA.assign(before, layout)) == 0
    lost, *rest = before.members
    remaining = replace(before, members={each: before.members[each] for each in rest})
    if rest:
        stateful = frozenset(layout.tasks(stateful_only=True))
        moved = moved_active(remaining, HA.assign(remaining, layout), stateful)
        assert moved <= len(before.members[lost].active & stateful)


@settings(max_examples=40)
@given(fresh_groups(), topologies())
def test_new_process_only_gets_its_share(spec: GroupSpec, layout: Topology) -> None:
    """The processes that are there exchange no tasks among them."""
    spec = replace(spec, max_warmup_replicas=max(1, spec.max_warmup_replicas))
    before = settled(HA, spec, layout)
    joining = replace(before, members={**before.members, "new": member("new")})
    at_rest = settled(HA, joining, layout)
    stateful = frozenset(layout.tasks(stateful_only=True))
    after = HA.assign(at_rest, layout)
    assert moved_active(joining, after, stateful) == len(after["new"].active & stateful)
