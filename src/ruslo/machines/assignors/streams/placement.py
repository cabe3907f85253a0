"""The assignment while it is built: which member has which task, and how loaded members and processes are.

Members are numbers in the order of the group. Processes are numbers as well. The load of a process is its
number of tasks divided by its number of members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum

from ruslo.machines.assignors.streams.loads import LoadLevels
from ruslo.machines.assignors.streams.model import AssignmentMember, MemberTasks, TaskId


class Role(Enum):
    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


class Placement:
    def __init__(self, members: Mapping[str, AssignmentMember]) -> None:
        sizes = Counter(member.process_id for member in members.values())
        # Large processes come first: at equal load, one more task increases their load less.
        numbers = {process_id: number for number, (process_id, _) in enumerate(sizes.most_common())}
        self.process_of = [numbers[member.process_id] for member in members.values()]
        """The process of each member."""
        self.members_of: list[list[int]] = [[] for _ in numbers]
        """The members of each process."""
        for member, process in enumerate(self.process_of):
            self.members_of[process].append(member)
        self.task_counts = [0] * len(members)
        """The number of tasks of each member, in all roles."""
        self.all_processes = (1 << len(numbers)) - 1
        self._member_ids = tuple(members)
        self._tasks: dict[Role, list[set[TaskId]]] = {role: [set() for _ in members] for role in Role}
        self._process_task_counts = [0] * len(numbers)
        self._holders: dict[TaskId, int] = {}
        self._levels = LoadLevels([0.0] * len(numbers))

    def add(self, member: int, task: TaskId, role: Role) -> None:
        self._tasks[role][member].add(task)
        process = self.process_of[member]
        self._holders[task] = self._holders.get(task, 0) | 1 << process
        self._count(member, process, 1)

    def remove(self, member: int, task: TaskId, role: Role) -> None:
        self._tasks[role][member].remove(task)
        process = self.process_of[member]
        self._holders[task] &= ~(1 << process)
        self._count(member, process, -1)

    def change_role(self, member: int, task: TaskId, before: Role, after: Role) -> None:
        self._tasks[before][member].remove(task)
        self._tasks[after][member].add(task)

    def _count(self, member: int, process: int, change: int) -> None:
        self.task_counts[member] += change
        self._process_task_counts[process] += change
        self._levels.change(process, self._process_task_counts[process] / len(self.members_of[process]))

    def tasks(self, member: int, role: Role) -> set[TaskId]:
        return self._tasks[role][member]

    def holders(self, task: TaskId) -> int:
        """The set of the processes that have the task in any role."""
        return self._holders.get(task, 0)

    def load_of(self, member: int) -> float:
        """The load of the member's process."""
        return self._levels.load(self.process_of[member])

    def has_copy(self, member: int, task: TaskId) -> bool:
        """Whether the member's process has the task in any role."""
        return bool(self.holders(task) >> self.process_of[member] & 1)

    def least_loaded(self, among: int) -> int | None:
        """The least loaded process of a set; None if the set is empty."""
        return self._levels.lowest(among)

    def least_loaded_member(self, process: int) -> int:
        members = self.members_of[process]
        return members[0] if len(members) == 1 else min(members, key=self.task_counts.__getitem__)

    def build(self) -> dict[str, MemberTasks]:
        active, standby, warmup = (self._tasks[role] for role in (Role.ACTIVE, Role.STANDBY, Role.WARMUP))
        return {
            member_id: MemberTasks(
                frozenset(active[member]), frozenset(standby[member]), frozenset(warmup[member])
            )
            for member, member_id in enumerate(self._member_ids)
        }
