"""Short builders of groups for task assignors, random groups, and measures of assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hypothesis import strategies as st

from ruslo.machines.assignors.streams.model import (
    AssignmentMember,
    GroupSpec,
    MemberTasks,
    Subtopology,
    TaskAssignment,
    TaskAssignor,
    TaskId,
    Topology,
)

ZONES = ("z1", "z2", "z3")


def tasks(text: str) -> frozenset[TaskId]:
    """``0_1 0_2``: tasks 1 and 2 of subtopology 0."""
    parts = (word.split("_") for word in text.split())
    return frozenset(TaskId(subtopology_id, int(partition)) for subtopology_id, partition in parts)


def text(found: Iterable[TaskId]) -> str:
    return " ".join(map(str, sorted(found)))


def topology(**partition_counts: int) -> Topology:
    """``topology(s0=4, t1=2)``: subtopology s0 is stateful, t1 is not."""
    return Topology(
        {name: Subtopology(count, name.startswith("s")) for name, count in sorted(partition_counts.items())}
    )


def member(
    member_id: str,
    active: str = "",
    standby: str = "",
    warmup: str = "",
    *,
    process: str | None = None,
    lags: Mapping[str, int] | None = None,
    tags: Mapping[str, str] | None = None,
    rack: str | None = None,
    reports_offsets: bool = True,
) -> AssignmentMember:
    """``lags``: what the member reports, by task."""
    reported = {next(iter(tasks(task))): lag for task, lag in (lags or {}).items()}
    return AssignmentMember(
        member_id,
        process or member_id,
        rack_id=rack,
        client_tags=tags or {},
        active=tasks(active),
        standby=tasks(standby),
        warmup=tasks(warmup),
        task_offsets={task: 10**9 - lag for task, lag in reported.items()},
        task_end_offsets=dict.fromkeys(reported, 10**9),
        reports_offsets=reports_offsets,
    )


def group(
    *members: AssignmentMember, standbys: int = 0, warmups: int = 2, tags: Iterable[str] = ()
) -> GroupSpec:
    return GroupSpec(
        {each.member_id: each for each in members},
        num_standby_replicas=standbys,
        max_warmup_replicas=warmups,
        rack_aware_tags=tuple(tags),
    )


def shown(assignment: TaskAssignment) -> dict[str, str]:
    """``0_0 0_1 | - | 0_3``: active, standby and warm-up tasks, up to the last role that has tasks."""
    return {
        member_id: " | ".join(text(found) or "-" for found in (each.active, each.standby, each.warmup))
        .removesuffix(" | -")
        .removesuffix(" | -")
        for member_id, each in assignment.items()
    }


def continued(spec: GroupSpec, assignment: TaskAssignment, lag: int | None = None) -> GroupSpec:
    """The group after it has adopted the assignment; restoring members report this lag."""
    members = {}
    for member_id, each in spec.members.items():
        target = assignment.get(member_id, MemberTasks())
        restoring = {} if lag is None else dict.fromkeys(target.standby | target.warmup, lag)
        members[member_id] = replace(
            each,
            active=target.active,
            standby=target.standby,
            warmup=target.warmup,
            task_offsets={task: 10**9 - behind for task, behind in restoring.items()},
            task_end_offsets=dict.fromkeys(restoring, 10**9),
        )
    return replace(spec, members=members)


def settled(assignor: TaskAssignor, spec: GroupSpec, topology: Topology, rounds_max: int = 200) -> GroupSpec:
    """Assign again and again, with members that catch up in between, until nothing changes."""
    for _ in range(rounds_max):
        assignment = assignor.assign(spec, topology)
        following = continued(spec, assignment, lag=0)
        if following == spec:
            return spec
        spec = following
    raise AssertionError(f"the assignment still changes after {rounds_max} rounds")


def check(spec: GroupSpec, topology: Topology, assignment: TaskAssignment) -> None:
    """What every assignment fulfils."""
    assert list(assignment) == list(spec.members)
    active = Counter(task for each in assignment.values() for task in each.active)
    assert active == Counter(topology.tasks())
    copies = Counter(
        (task, spec.members[member_id].process_id)
        for member_id, each in assignment.items()
        for found in (each.active, each.standby, each.warmup)
        for task in found
    )
    assert not [copy for copy, count in copies.items() if count > 1], "a process has two copies of a task"
    stateful = set(topology.tasks(stateful_only=True))
    assert all(each.standby | each.warmup <= stateful for each in assignment.values())


def process_loads(
    spec: GroupSpec, assignment: TaskAssignment, *, active_only: bool = False
) -> dict[str, float]:
    """Tasks per member of each process."""
    counts, sizes = Counter[str](), Counter[str]()
    for member_id, each in assignment.items():
        process = spec.members[member_id].process_id
        sizes[process] += 1
        counts[process] += len(each.active) + (0 if active_only else len(each.standby))
    return {process: counts[process] / size for process, size in sizes.items()}


def moved_active(before: GroupSpec, assignment: TaskAssignment, among: Iterable[TaskId] | None = None) -> int:
    """How many active tasks have another process than before, or have had none."""
    owners = {task: each.process_id for each in before.members.values() for task in each.active}
    counted = None if among is None else frozenset(among)
    return sum(
        owners.get(task) != before.members[member_id].process_id
        for member_id, each in assignment.items()
        for task in each.active
        if counted is None or task in counted
    )


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    count = draw(st.integers(1, 4))
    return Topology(
        {str(number): Subtopology(draw(st.integers(1, 9)), draw(st.booleans())) for number in range(count)}
    )


@st.composite
def fresh_groups(draw: st.DrawFn, *, threads_max: int = 3) -> GroupSpec:
    """A group without tasks."""
    members = []
    tag_keys = draw(st.sampled_from([(), ("zone",), ("zone", "cluster")]))
    for process in range(draw(st.integers(1, 6))):
        tags = {"zone": draw(st.sampled_from(ZONES)), "cluster": draw(st.sampled_from(["c1", "c2"]))}
        rack = draw(st.none() | st.sampled_from(ZONES))
        members += [
            member(f"m{process}-{thread}", process=f"p{process}", tags=tags, rack=rack)
            for thread in range(draw(st.integers(1, threads_max)))
        ]
    return group(*members, standbys=draw(st.integers(0, 2)), warmups=draw(st.integers(0, 3)), tags=tag_keys)


@st.composite
def groups(draw: st.DrawFn) -> tuple[GroupSpec, Topology]:
    """Any group and topology: any current target, any reported lags."""
    layout, spec = draw(topologies()), draw(fresh_groups())
    member_ids = list(spec.members)
    held: dict[str, dict[str, set[TaskId]]] = {
        each: {"active": set(), "standby": set(), "warmup": set()} for each in member_ids
    }
    for task in layout.tasks():
        owner = draw(st.none() | st.sampled_from(member_ids))
        if owner is not None:
            held[owner]["active"].add(task)
        for role in ("standby", "warmup"):
            for other in draw(st.sets(st.sampled_from(member_ids), max_size=2)):
                if other != owner:
                    held[other][role].add(task)
    members = {}
    for member_id, each in spec.members.items():
        reported = draw(
            st.dictionaries(st.sampled_from(list(layout.tasks())), st.sampled_from([0, 9_999, 10_001, 10**9]))
        )
        members[member_id] = replace(
            each,
            active=frozenset(held[member_id]["active"]),
            standby=frozenset(held[member_id]["standby"]),
            warmup=frozenset(held[member_id]["warmup"]),
            task_offsets={task: 10**9 - lag for task, lag in reported.items()},
            task_end_offsets=dict.fromkeys(reported, 10**9),
            reports_offsets=draw(st.booleans()),
        )
    return replace(spec, members=members), layout
