"""Task assignors compared with the assignor of Kafka's group coordinator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

import pytest

from ruslo.machines.assignors.streams.highly_available import HighlyAvailableTaskAssignor
from ruslo.machines.assignors.streams.model import (
    AssignmentMember,
    GroupSpec,
    MemberTasks,
    Subtopology,
    TaskAssignment,
    TaskId,
    Topology,
)
from ruslo.machines.assignors.streams.sticky import StickyTaskAssignor
from tests.interop.oracle import JavaOracle
from tests.support.groups.task_specs import check, continued, moved_active, process_loads

STICKY = StickyTaskAssignor()
HA = HighlyAvailableTaskAssignor()
PROCESS_NAMES = 8


class Oracle(JavaOracle):
    def assign(self, group: GroupSpec, topology: Topology, naming: int = 0) -> TaskAssignment:
        """``naming``: Kafka iterates in the order of hashes, so names of members and processes decide."""
        names = {member_id: f"{naming}-{member_id}-{naming * 7919}" for member_id in group.members}
        request = {
            "standbys": group.num_standby_replicas,
            "subtopologies": {
                each: {"partitions": subtopology.partition_count, "stateful": subtopology.is_stateful}
                for each, subtopology in topology.subtopologies.items()
            },
            "members": [
                {
                    "id": names[member.member_id],
                    "process": f"{naming}-{member.process_id}-{naming * 7919}",
                    "active": _by_subtopology(member.active),
                    "standby": _by_subtopology(member.standby),
                }
                for member in group.members.values()
            ],
        }
        response = json.loads(self.exchange(json.dumps(request)))
        return {
            member_id: MemberTasks(_tasks(response[name]["active"]), _tasks(response[name]["standby"]))
            for member_id, name in names.items()
        }


def _by_subtopology(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology_id, []).append(task.partition)
    return found


def _tasks(by_subtopology: dict[str, list[int]]) -> frozenset[TaskId]:
    return frozenset(TaskId(each, number) for each, numbers in by_subtopology.items() for number in numbers)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("TaskAssignorsOracle") as oracle:
        yield oracle


def _random_topology(random: Random) -> Topology:
    return Topology(
        {
            str(number): Subtopology(random.choice([1, 2, 3, 6, 12, 25]), random.random() < 0.6)
            for number in range(random.randint(1, 5))
        }
    )


def _random_group(random: Random, topology: Topology) -> GroupSpec:
    """Processes of one size or of several, with a current target that is balanced, partial or arbitrary."""
    threads = random.choice([[1], [2], [1, 2, 4]])
    members: dict[str, AssignmentMember] = {}
    for process in range(random.randint(1, 9)):
        for thread in range(random.choice(threads)):
            member_id = f"member-{random.randint(0, 10**6)}-{process}-{thread}"
            members[member_id] = AssignmentMember(member_id, f"process-{process}")
    group = GroupSpec(members, num_standby_replicas=random.choice([0, 0, 1, 2]))
    kind = random.choice(["new", "balanced", "lost", "joined", "arbitrary"])
    if kind in ("balanced", "lost", "joined"):
        group = continued(group, STICKY.assign(group, topology))
        if kind == "lost" and len(members) > 1:
            lost = random.choice(list(members))
            group = replace(group, members={key: each for key, each in group.members.items() if key != lost})
        if kind == "joined":
            group = replace(group, members={**group.members, "new": AssignmentMember("new", "process-new")})
    elif kind == "arbitrary":
        held = {member_id: MemberTasks() for member_id in members}
        for task in topology.tasks():
            if random.random() < 0.8:
                member_id = random.choice(list(members))
                held[member_id] = replace(held[member_id], active=held[member_id].active | {task})
        group = continued(group, held)
    return group


@pytest.mark.parametrize("seed", range(200))
def test_sticky_is_as_good_as_kafkas(oracle: Oracle, seed: int) -> None:
    random = Random(seed)
    topology = _random_topology(random)
    group = _random_group(random, topology)
    assignment = STICKY.assign(group, topology)
    check(group, topology, assignment)
    results = [oracle.assign(group, topology, naming) for naming in range(PROCESS_NAMES)]
    kept_counts = [_kept_count(group, result) for result in results]
    assert _kept_count(group, assignment) >= min(kept_counts)
    assert _spread(group, assignment) <= max(_spread(group, result) for result in results)
    standby_counts = {sum(len(each.standby) for each in result.values()) for result in results}
    assert sum(len(each.standby) for each in assignment.values()) in standby_counts
    if all(result == results[0] for result in results):
        # Names decide nothing. Kafka's heap still decides which of the equally loaded processes gets a task.
        assert _kept(group, assignment) == _kept(group, results[0])
        if moved_active(group, assignment) + standby_counts.pop() <= 1:
            assert assignment == results[0]


@pytest.mark.parametrize("seed", range(40))
def test_sticky_is_kafkas_with_one_process_or_one_member(oracle: Oracle, seed: int) -> None:
    """Without ties between processes the result does not depend on names."""
    random = Random(seed)
    topology = _random_topology(random)
    group = _random_group(random, topology)
    first = next(iter(group.members))
    alone = replace(group, members={first: group.members[first]})
    assert STICKY.assign(alone, topology) == oracle.assign(alone, topology)


def _kept(group: GroupSpec, assignment: TaskAssignment) -> dict[str, frozenset[TaskId]]:
    return {
        member_id: each.active & group.members[member_id].active for member_id, each in assignment.items()
    }


def _kept_count(group: GroupSpec, assignment: TaskAssignment) -> int:
    return sum(map(len, _kept(group, assignment).values()))


def _spread(group: GroupSpec, assignment: TaskAssignment) -> float:
    """The difference between the most and the least active tasks per member of a process."""
    loads = process_loads(group, assignment, active_only=True).values()
    return max(loads) - min(loads)


@pytest.mark.parametrize("seed", range(100))
def test_highly_available_moves_no_more_stateful_tasks_than_sticky(oracle: Oracle, seed: int) -> None:
    random = Random(seed)
    topology = Topology({"0": Subtopology(random.randint(1, 30), is_stateful=True)})
    group = replace(_random_group(random, topology), max_warmup_replicas=10**6)
    assignment = HA.assign(group, topology)
    check(group, topology, assignment)
    at_rest = HA.assign(continued(group, assignment, lag=0), topology)
    results = [oracle.assign(group, topology, naming) for naming in range(PROCESS_NAMES)]
    assert moved_active(group, at_rest) <= max(moved_active(group, result) for result in results)
    assert _spread(group, at_rest) <= max(1, *(_spread(group, result) for result in results))
