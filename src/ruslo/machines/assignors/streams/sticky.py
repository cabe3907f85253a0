"""sticky: Apache Kafka's default task assignor: balanced first, then as few moves as possible.

1. A task stays on the member that has it, then goes to a member with a standby of it, up to the members'
   quota.
2. The other tasks go to the least loaded process, in the order of subtopologies, so that a process gets
   consecutive partitions.
3. Standby tasks go in the same way to processes that do not have the task.

It ignores lags, tags and racks.
"""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.machines.assignors.streams.model import GroupSpec, MemberTasks, TaskId, Topology
from ruslo.machines.assignors.streams.placement import Placement, Role
from ruslo.machines.assignors.streams.previous import PreviousTasks
from ruslo.machines.assignors.streams.quota import Quota


class StickyTaskAssignor:
    name = "sticky"
    uses_offsets = False

    def assign(self, group: GroupSpec, topology: Topology) -> dict[str, MemberTasks]:
        return _StickyAssignment(group, topology).build() if group.members else {}


class _StickyAssignment:
    def __init__(self, group: GroupSpec, topology: Topology) -> None:
        self._replica_count = group.num_standby_replicas
        self._tasks = list(topology.tasks())
        self._stateful = list(topology.tasks(stateful_only=True))
        self._placement = Placement(group.members)
        self._previous = PreviousTasks(group.members)
        member_count = len(group.members)
        self._active_quota = Quota(len(self._tasks), member_count)
        self._total_quota = Quota(len(self._tasks) + len(self._stateful) * self._replica_count, member_count)

    def build(self) -> dict[str, MemberTasks]:
        self._assign_active()
        if self._replica_count:
            self._assign_standby()
        return self._placement.build()

    def _assign_active(self) -> None:
        # By partition, because a member of a range-like assignment has the same partitions everywhere.
        unowned = []
        for task in sorted(self._tasks, key=_partition_first):
            owner = self._previous.active.get(task)
            if owner is None or not self._keep_active(owner, task):
                unowned.append(task)
        rest = []
        for task in unowned:
            holder = self._least_loaded_holder(self._previous.standby.get(task, ()))
            if holder is None or not self._keep_active(holder, task):
                rest.append(task)
        for task in sorted(rest):
            process = self._placement.least_loaded(self._placement.all_processes)
            assert process is not None
            self._add_active(self._placement.least_loaded_member(process), task)

    def _keep_active(self, member: int, task: TaskId) -> bool:
        has_room = self._placement.task_counts[member] < self._active_quota.share
        if has_room:
            self._add_active(member, task)
        return has_room

    def _add_active(self, member: int, task: TaskId) -> None:
        self._placement.add(member, task, Role.ACTIVE)
        self._active_quota.count(self._placement.task_counts[member])
        self._total_quota.count(self._placement.task_counts[member])

    def _assign_standby(self) -> None:
        rest: list[tuple[TaskId, int]] = []
        for task in sorted(self._stateful, key=_partition_first, reverse=True):
            kept = 0
            while kept < self._replica_count and self._keep_standby(task):
                kept += 1
            if kept < self._replica_count:
                rest.append((task, self._replica_count - kept))
        placement = self._placement
        for task, missing in sorted(rest, reverse=True):
            for _ in range(missing):
                process = placement.least_loaded(placement.all_processes & ~placement.holders(task))
                if process is None:
                    break  # More replicas than processes.
                self._add_standby(placement.least_loaded_member(process), task)

    def _keep_standby(self, task: TaskId) -> bool:
        """Assign a standby to a member that has the task's state, as its former active task or a standby."""
        owner = self._previous.active.get(task)
        if owner is not None and not self._placement.has_copy(owner, task) and self._has_room(owner):
            self._add_standby(owner, task)
            return True
        holder = self._least_loaded_holder(self._previous.standby.get(task, ()), task)
        if holder is None or not self._has_room(holder):
            return False
        self._add_standby(holder, task)
        return True

    def _has_room(self, member: int) -> bool:
        return self._placement.task_counts[member] < self._total_quota.share

    def _add_standby(self, member: int, task: TaskId) -> None:
        self._placement.add(member, task, Role.STANDBY)
        self._total_quota.count(self._placement.task_counts[member])

    def _least_loaded_holder(self, members: Sequence[int], without: TaskId | None = None) -> int | None:
        """The least loaded of these members; None if its process already has the task ``without``.

        As in Kafka, a member is only preferred to one before it if both it and its process are less loaded.
        """
        placement = self._placement
        best: int | None = None
        for member in members:
            if best is None or (
                placement.load_of(member) < placement.load_of(best)
                and placement.task_counts[member] < placement.task_counts[best]
                and not (without is not None and placement.has_copy(member, without))
            ):
                best = member
        if best is not None and without is not None and placement.has_copy(best, without):
            return None
        return best


def _partition_first(task: TaskId) -> tuple[int, str]:
    return task.partition, task.subtopology_id
