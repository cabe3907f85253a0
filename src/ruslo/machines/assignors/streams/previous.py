"""The members that have each task in the current target."""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.machines.assignors.streams.model import AssignmentMember, TaskId


class PreviousTasks:
    """Members are numbers in the order of the group, as in Placement."""

    def __init__(self, members: Mapping[str, AssignmentMember]) -> None:
        self.active: dict[TaskId, int] = {}
        self.standby: dict[TaskId, list[int]] = {}
        self.warmup: dict[TaskId, list[int]] = {}
        for number, member in enumerate(members.values()):
            for task in member.active:
                self.active[task] = number
            for task in member.standby:
                self.standby.setdefault(task, []).append(number)
            for task in member.warmup:
                self.warmup.setdefault(task, []).append(number)
