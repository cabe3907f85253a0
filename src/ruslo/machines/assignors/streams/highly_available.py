"""highly_available: stateful tasks only move to processes that have caught up (KIP-441).

1. Build the ideal assignment of stateful tasks: balanced, with few moves, standby tasks spread over tags or
   racks.
2. If the ideal process of an active task has to restore much of its state, and another process has more of
   it, the task stays or goes there. The ideal process restores a warm-up task, or takes over the other's
   standby task.
3. A standby task that has caught up stays until its ideal process has caught up as well.
4. Stateless tasks fill the gaps.

`num.warmup.replicas` limits the additional replicas of steps 2 and 3. The coordinator computes the assignment
again when a warm-up task has caught up, so the group approaches the ideal.
"""

from __future__ import annotations

from ruslo.machines.assignors.streams.ideal_assignment import IdealAssignment
from ruslo.machines.assignors.streams.loads import LoadLevels
from ruslo.machines.assignors.streams.model import GroupSpec, MemberTasks, TaskId, Topology
from ruslo.machines.assignors.streams.placement import Role
from ruslo.machines.assignors.streams.quota import Quota


class HighlyAvailableTaskAssignor:
    name = "highly_available"
    uses_offsets = True

    def assign(self, group: GroupSpec, topology: Topology) -> dict[str, MemberTasks]:
        return _HighlyAvailableAssignment(group, topology).build() if group.members else {}


class _HighlyAvailableAssignment:
    def __init__(self, group: GroupSpec, topology: Topology) -> None:
        self._warmups_left = group.max_warmup_replicas
        self._topology = topology
        self._ideal = IdealAssignment(group, topology)
        self._placement = self._ideal.placement
        self._previous = self._ideal.previous
        self._lags = self._ideal.lags

    def build(self) -> dict[str, MemberTasks]:
        for task in sorted(self._ideal.tasks, key=self._urgency):
            self._keep_active_caught_up(task)
        for task, members in self._ideal.standbys.items():
            for member in tuple(members):
                self._keep_standby_caught_up(task, member)
        self._place_stateless()
        return self._placement.build()

    def _urgency(self, task: TaskId) -> tuple[bool, int]:
        """Warm-up tasks that have begun stay; then come tasks that few processes could process at once."""
        return task not in self._previous.warmup, self._lags.caught_up(task).bit_count()

    def _keep_active_caught_up(self, task: TaskId) -> None:
        ideal = self._ideal.owners[task]
        process = self._more_caught_up(task, self._placement.process_of[ideal])
        if process is None:
            return
        placement, standbys = self._placement, self._ideal.standbys.get(task, [])
        placement.remove(ideal, task, Role.ACTIVE)
        for number, standby in enumerate(standbys):
            if placement.process_of[standby] == process:
                placement.change_role(standby, task, Role.STANDBY, Role.ACTIVE)
                placement.add(ideal, task, Role.STANDBY)
                standbys[number] = ideal
                return
        placement.add(self._ideal.member_for(process, task), task, Role.ACTIVE)
        if self._warmups_left:
            self._warmups_left -= 1
            placement.add(ideal, task, Role.WARMUP)

    def _more_caught_up(self, task: TaskId, ideal: int) -> int | None:
        """The process that should process the task for now; None if it is the ideal one."""
        lags, placement = self._lags, self._placement
        caught_up = lags.caught_up(task)
        if (caught_up | lags.unobservable) >> ideal & 1:
            return None
        if not caught_up:
            most_caught_up = next(iter(lags.by_lag(task)), None)
            if most_caught_up is None or not lags.is_behind(ideal, most_caught_up, task):
                return None
            return most_caught_up
        owner = self._previous.active.get(task)
        if owner is not None and caught_up >> placement.process_of[owner] & 1:
            return placement.process_of[owner]
        with_standby = placement.least_loaded(caught_up & placement.holders(task))
        return placement.least_loaded(caught_up) if with_standby is None else with_standby

    def _keep_standby_caught_up(self, task: TaskId, member: int) -> None:
        placement = self._placement
        caught_up = self._lags.caught_up(task)
        if (caught_up | self._lags.unobservable) >> placement.process_of[member] & 1:
            return
        free = caught_up & self._ideal.previous_processes(task) & ~placement.holders(task)
        process = placement.least_loaded(free)
        if process is None:
            return
        if self._warmups_left:
            self._warmups_left -= 1
        else:
            placement.remove(member, task, Role.STANDBY)
            self._ideal.standbys[task].remove(member)
        self._ideal.add_standby(self._ideal.member_for(process, task), task)

    def _place_stateless(self) -> None:
        """Place stateless tasks by the number of active tasks, because standby tasks process no records."""
        placement, previous = self._placement, self._previous.active
        counts = [len(placement.tasks(member, Role.ACTIVE)) for member in range(len(placement.process_of))]
        stateless = [task for task in self._topology.tasks() if task not in self._ideal.owners]
        quota = Quota(len(stateless) + sum(counts), len(counts))
        for count in counts:
            for reached in range(1, count + 1):
                quota.count(reached)

        def load(process: int) -> float:
            members = placement.members_of[process]
            return sum(counts[member] for member in members) / len(members)

        loads = LoadLevels([load(process) for process in range(len(placement.members_of))])

        def add(member: int, task: TaskId) -> None:
            placement.add(member, task, Role.ACTIVE)
            counts[member] += 1
            quota.count(counts[member])
            loads.change(placement.process_of[member], load(placement.process_of[member]))

        rest = []
        for task in stateless:
            owner = previous.get(task)
            if owner is not None and counts[owner] < quota.share:
                add(owner, task)
            else:
                rest.append(task)
        for task in rest:
            process = loads.lowest(placement.all_processes)
            assert process is not None
            add(min(placement.members_of[process], key=counts.__getitem__), task)
