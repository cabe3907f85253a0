"""How many changelog records each process would have to restore before it can process a task (KIP-441)."""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.machines.assignors.streams.model import GroupSpec, TaskId
from ruslo.machines.assignors.streams.placement import Placement
from ruslo.machines.assignors.streams.previous import PreviousTasks

PROCESSING = -1
"""The lag of the process that processes the task, less than any other."""
UNBOUNDED = 2**63 - 1
"""With this acceptable lag every process is caught up."""


def recovery_lag(offset: int, end_offset: int) -> int:
    # State beyond the end of the changelog is corrupt: it is restored from the beginning.
    return end_offset - offset if offset <= end_offset else end_offset


class RecoveryLags:
    def __init__(self, group: GroupSpec, placement: Placement, previous: PreviousTasks) -> None:
        self._acceptable = group.acceptable_recovery_lag
        self._lags: dict[TaskId, dict[int, int]] = {}
        self._caught_up: dict[TaskId, int] = {}
        self.unobservable = placement.all_processes if self._acceptable >= UNBOUNDED else 0
        """The set of the processes without warm-up tasks, because they would never be seen to catch up."""
        members = tuple(group.members.values())
        for number, member in enumerate(members):
            process = placement.process_of[number]
            if not member.reports_offsets:
                self.unobservable |= 1 << process
                for task in (*member.standby, *member.warmup):
                    self._set(task, process, 0)
            for task, offset in member.task_offsets.items():
                end_offset = member.task_end_offsets.get(task)
                if end_offset is not None:
                    self._set(task, process, recovery_lag(offset, end_offset))
        for task, owner in previous.active.items():
            if task not in members[owner].task_offsets:
                self._set(task, placement.process_of[owner], PROCESSING)

    def _set(self, task: TaskId, process: int, lag: int) -> None:
        lags = self._lags.setdefault(task, {})
        if lag < lags.get(process, lag + 1):
            lags[process] = lag
            if lag <= self._acceptable:
                self._caught_up[task] = self._caught_up.get(task, 0) | 1 << process

    def caught_up(self, task: TaskId) -> int:
        """The set of the processes whose lag is acceptable."""
        return self._caught_up.get(task, 0)

    def by_lag(self, task: TaskId) -> Sequence[int]:
        """The processes with local state, the most caught up first."""
        lags = self._lags.get(task)
        return sorted(lags, key=lambda process: (lags[process], process)) if lags else ()

    def is_behind(self, process: int, other: int, task: TaskId) -> bool:
        """Whether a process has less of the task's state than another one with local state."""
        lags = self._lags[task]
        return process not in lags or lags[other] < lags[process]
