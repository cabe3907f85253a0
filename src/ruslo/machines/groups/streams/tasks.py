"""The tasks of a member, and their form in requests, responses and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ruslo.machines.assignors.streams.model import NO_TASKS, MemberTasks, TaskId

TaskEpochs: TypeAlias = Mapping[TaskId, int]
"""The assignment epoch of each task: the member epoch since which the member has it."""


class SubtopologyTasks(Protocol):
    """The tasks of one subtopology in a message."""

    subtopology_id: str
    partitions: list[int]


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Tasks that a member has, or has to give up."""

    active: TaskEpochs = field(default_factory=dict)
    standby: frozenset[TaskId] = NO_TASKS
    warmup: frozenset[TaskId] = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def shares_any(self, owned: MemberTasks) -> bool:
        """Whether one of these tasks is among the owned ones, in the same role."""
        return not (
            owned.active.isdisjoint(self.active)
            and owned.standby.isdisjoint(self.standby)
            and owned.warmup.isdisjoint(self.warmup)
        )

    def contains(self, owned: MemberTasks) -> bool:
        return (
            owned.active <= self.active.keys()
            and owned.standby <= self.standby
            and owned.warmup <= self.warmup
        )


NO_HELD_TASKS = HeldTasks()


def task_ids(subtopologies: Iterable[SubtopologyTasks]) -> frozenset[TaskId]:
    return frozenset(
        TaskId(each.subtopology_id, partition) for each in subtopologies for partition in each.partitions
    )


def by_subtopology(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """Sorted partitions by subtopology id, sorted too."""
    result: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        result.setdefault(subtopology_id, []).append(partition)
    return result
