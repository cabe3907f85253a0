"""The assignment of stateful tasks that highly_available approaches: balanced, then with few moves.

Lags only decide among processes that have room, so the ideal process of a task may still have to restore it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ruslo.machines.assignors.streams.loads import bits
from ruslo.machines.assignors.streams.model import GroupSpec, TaskId, Topology
from ruslo.machines.assignors.streams.placement import Placement, Role
from ruslo.machines.assignors.streams.previous import PreviousTasks
from ruslo.machines.assignors.streams.quota import Quota
from ruslo.machines.assignors.streams.recovery_lags import RecoveryLags
from ruslo.machines.assignors.streams.tag_spread import TagSpread


class IdealAssignment:
    def __init__(self, group: GroupSpec, topology: Topology) -> None:
        self._replica_count = group.num_standby_replicas
        self._member_count = len(group.members)
        self.placement = Placement(group.members)
        self.previous = PreviousTasks(group.members)
        self.lags = RecoveryLags(group, self.placement, self.previous)
        self.tasks = sorted(topology.tasks(stateful_only=True), key=lambda task: (task.partition, task))
        self.owners: dict[TaskId, int] = {}
        """The member with the active task."""
        self.standbys: dict[TaskId, list[int]] = {}
        self._spread = TagSpread(group, self.placement)
        self._place_active()
        if self._replica_count:
            self._place_standby()

    def member_for(self, process: int, task: TaskId) -> int:
        """The member of a process that gets a task: one that has had it, unless another has fewer tasks."""
        counts = self.placement.task_counts
        least_loaded = self.placement.least_loaded_member(process)
        for member in self._holders_in(process, task):
            if counts[member] <= counts[least_loaded]:
                return member
        return least_loaded

    def previous_processes(self, task: TaskId) -> int:
        """The set of the processes that have had the task in any role."""
        return self._processes(self._previous_holders(task))

    def add_standby(self, member: int, task: TaskId) -> None:
        self.placement.add(member, task, Role.STANDBY)
        self.standbys.setdefault(task, []).append(member)

    def _place_active(self) -> None:
        quota = Quota(len(self.tasks), self._member_count)
        rank = self._ranks()
        moving = [
            task
            for task in sorted(self.tasks, key=rank.__getitem__)
            if not self._place_first(self._previous_owners(task), task, quota)
        ]
        moving.sort(key=lambda task: self.lags.caught_up(task).bit_count())
        rest = [task for task in moving if not self._place_first(self._members_with_state(task), task, quota)]
        for task in sorted(rest):
            process = self.placement.least_loaded(self.placement.all_processes)
            assert process is not None
            self._add_active(self.placement.least_loaded_member(process), task, quota)
        for members in self.placement.members_of:
            if len(members) > 1:
                self._level_members(members)

    def _level_members(self, members: Sequence[int]) -> None:
        """Members of one process exchange tasks without restoring them: they share its local state."""
        counts = self.placement.task_counts
        while True:
            least = min(members, key=counts.__getitem__)
            most = max(members, key=counts.__getitem__)
            if counts[most] - counts[least] <= 1:
                return
            task = max(self.placement.tasks(most, Role.ACTIVE))
            self.placement.remove(most, task, Role.ACTIVE)
            self.placement.add(least, task, Role.ACTIVE)
            self.owners[task] = least

    def _ranks(self) -> dict[TaskId, int]:
        """Members keep tasks of low rank first.

        0: tasks that move to the member; 2: tasks that a less loaded process has a standby of.
        """
        process_of = self.placement.process_of
        counts = [0] * len(self.placement.members_of)
        for owner in self.previous.active.values():
            counts[process_of[owner]] += 1
        loads = [
            count / len(members) for count, members in zip(counts, self.placement.members_of, strict=True)
        ]
        ranks = {}
        for task in self.tasks:
            owners = [loads[process_of[owner]] for owner in self._previous_owners(task)]
            standbys = [loads[process_of[standby]] for standby in self.previous.standby.get(task, ())]
            if task in self.previous.warmup:
                ranks[task] = 0
            elif owners and standbys and min(standbys) < min(owners):
                ranks[task] = 2
            else:
                ranks[task] = 1
        return ranks

    def _previous_owners(self, task: TaskId) -> Iterator[int]:
        """A warm-up task shows where the task was to move."""
        yield from self.previous.warmup.get(task, ())
        if (owner := self.previous.active.get(task)) is not None:
            yield owner

    def _members_with_state(self, task: TaskId) -> Iterator[int]:
        caught_up = self.lags.caught_up(task)
        standbys = self._processes(self.previous.standby.get(task, ()))
        in_order = [
            self.placement.least_loaded(caught_up & standbys),
            self.placement.least_loaded(caught_up),
            *self.lags.by_lag(task),
            *bits(standbys),
        ]
        return (self.member_for(process, task) for process in in_order if process is not None)

    def _place_first(self, members: Iterable[int], task: TaskId, quota: Quota) -> bool:
        """Assign the active task to the first of the members that has room."""
        for member in members:
            if self.placement.task_counts[member] < quota.share:
                self._add_active(member, task, quota)
                return True
        return False

    def _add_active(self, member: int, task: TaskId, quota: Quota) -> None:
        self.owners[task] = member
        self.placement.add(member, task, Role.ACTIVE)
        quota.count(self.placement.task_counts[member])

    def _place_standby(self) -> None:
        quota = Quota(len(self.tasks) * (1 + self._replica_count), self._member_count)
        rest: list[TaskId] = []
        for task in self.tasks:
            kept = 0
            with_standby = self._processes(self.previous.standby.get(task, ()))
            with_active = self._processes(self._previous_owners(task))
            while kept < self._replica_count and (
                self._keep_standby(task, with_standby, quota) or self._keep_standby(task, with_active, quota)
            ):
                kept += 1
            rest += [task] * (self._replica_count - kept)
        for task in rest:
            if not self._keep_standby(task, self.lags.caught_up(task), quota):
                member = self._least_loaded_candidate(task, self.placement.all_processes)
                if member is not None:
                    self._add_ideal_standby(member, task, quota)

    def _keep_standby(self, task: TaskId, among: int, quota: Quota) -> bool:
        member = self._least_loaded_candidate(task, among)
        if member is None or self.placement.task_counts[member] >= quota.share:
            return False
        self._add_ideal_standby(member, task, quota)
        return True

    def _add_ideal_standby(self, member: int, task: TaskId, quota: Quota) -> None:
        self.add_standby(member, task)
        quota.count(self.placement.task_counts[member])

    def _least_loaded_candidate(self, task: TaskId, among: int) -> int | None:
        """The member for a standby task in the least loaded process of a set, if tags allow one of them."""
        holders = self.placement.holders(task)
        allowed = self._spread.allowed(self.placement.all_processes & ~holders, holders)
        process = self.placement.least_loaded(allowed & among)
        return None if process is None else self.member_for(process, task)

    def _previous_holders(self, task: TaskId) -> Iterator[int]:
        yield from self._previous_owners(task)
        yield from self.previous.standby.get(task, ())

    def _holders_in(self, process: int, task: TaskId) -> Iterator[int]:
        process_of = self.placement.process_of
        return (member for member in self._previous_holders(task) if process_of[member] == process)

    def _processes(self, members: Iterable[int]) -> int:
        found = 0
        for member in members:
            found |= 1 << self.placement.process_of[member]
        return found
