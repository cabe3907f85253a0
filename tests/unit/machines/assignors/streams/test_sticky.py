"""sticky: balanced first, then few moves. An interop test compares it with Apache Kafka's assignor."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from ruslo.machines.assignors.streams.model import GroupSpec, Topology
from ruslo.machines.assignors.streams.sticky import StickyTaskAssignor
from tests.support.groups.task_specs import (
    check,
    continued,
    fresh_groups,
    group,
    groups,
    member,
    moved_active,
    process_loads,
    shown,
    topologies,
    topology,
)

STICKY = StickyTaskAssignor()


def test_empty_group_has_no_assignment() -> None:
    assert STICKY.assign(group(), topology(s0=2)) == {}


def test_first_assignment_gives_each_process_consecutive_tasks_in_turn() -> None:
    spec = group(member("a"), member("b"))
    assert shown(STICKY.assign(spec, topology(s0=3, t1=3))) == {"a": "s0_0 s0_2 t1_1", "b": "s0_1 t1_0 t1_2"}


def test_threads_of_one_process_share_its_tasks() -> None:
    spec = group(member("a1", process="a"), member("a2", process="a"), member("b"))
    loads = process_loads(spec, STICKY.assign(spec, topology(s0=6)))
    assert loads == {"a": 2.0, "b": 2.0}


def test_new_member_gets_the_tasks_above_the_quota() -> None:
    spec = group(member("a", "s0_0 s0_1 s0_2"), member("b", "s0_3 s0_4 s0_5"), member("c"))
    assert shown(STICKY.assign(spec, topology(s0=6))) == {
        "a": "s0_0 s0_1",
        "b": "s0_3 s0_4",
        "c": "s0_2 s0_5",
    }


def test_standby_takes_over_from_a_member_that_left() -> None:
    spec = group(member("a", "s0_0", "s0_2"), member("b", "s0_1", "s0_3"), standbys=1)
    assert shown(STICKY.assign(spec, topology(s0=4))) == {
        "a": "s0_0 s0_2 | s0_1 s0_3",
        "b": "s0_1 s0_3 | s0_0 s0_2",
    }


def test_standby_never_runs_in_the_process_of_the_active_task() -> None:
    spec = group(member("a1", process="a"), member("a2", process="a"), standbys=1)
    assert {each.standby for each in STICKY.assign(spec, topology(s0=4)).values()} == {frozenset()}


def test_stateless_tasks_have_no_standby() -> None:
    spec = group(member("a"), member("b"), standbys=1)
    assert shown(STICKY.assign(spec, topology(t0=2))) == {"a": "t0_0", "b": "t0_1"}


def test_tasks_of_removed_subtopologies_disappear() -> None:
    spec = group(member("a", "old_0 s0_0", "old_1"), standbys=1)
    assert shown(STICKY.assign(spec, topology(s0=1))) == {"a": "s0_0"}


@settings(max_examples=60)
@given(groups())
def test_every_assignment_is_complete_and_separates_copies(drawn: tuple[GroupSpec, Topology]) -> None:
    spec, layout = drawn
    assignment = STICKY.assign(spec, layout)
    check(spec, layout, assignment)
    assert STICKY.assign(spec, layout) == assignment
    assert not any(each.warmup for each in assignment.values())
    process_count = len({each.process_id for each in spec.members.values()})
    replicas = min(spec.num_standby_replicas, process_count - 1)
    standby_count = sum(len(each.standby) for each in assignment.values())
    assert standby_count == replicas * len(list(layout.tasks(stateful_only=True)))


@settings(max_examples=40)
@given(fresh_groups(), topologies())
def test_first_assignment_is_balanced(spec: GroupSpec, layout: Topology) -> None:
    loads = process_loads(spec, STICKY.assign(spec, layout), active_only=True)
    assert max(loads.values()) - min(loads.values()) <= 1


@settings(max_examples=40)
@given(fresh_groups(), topologies())
def test_active_tasks_stay_if_nothing_changes(spec: GroupSpec, layout: Topology) -> None:
    before = continued(spec, STICKY.assign(spec, layout))
    assert moved_active(before, STICKY.assign(before, layout)) == 0


@settings(max_examples=40)
@given(fresh_groups(), topologies())
def test_only_the_tasks_of_a_lost_member_move(spec: GroupSpec, layout: Topology) -> None:
    before = continued(spec, STICKY.assign(spec, layout))
    lost, *rest = before.members
    remaining = replace(before, members={each: before.members[each] for each in rest})
    if rest:
        after = STICKY.assign(remaining, layout)
        assert moved_active(remaining, after) <= len(before.members[lost].active)
