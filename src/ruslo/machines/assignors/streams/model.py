"""The input and output of a task assignor of streams groups (KIP-1071).

A task assignor is a pure function: the same GroupSpec and Topology give the same assignment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

NO_TASKS: frozenset[TaskId] = frozenset()


class TaskId(NamedTuple):
    """Tasks sort as in Kafka: by subtopology, then by partition."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


@dataclass(frozen=True, slots=True)
class AssignmentMember:
    """A member (a stream thread) with the tasks of its current target."""

    member_id: str
    process_id: str
    """The application instance (JVM) of the member; its members share the state on one local disk."""
    instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    active: frozenset[TaskId] = NO_TASKS
    standby: frozenset[TaskId] = NO_TASKS
    warmup: frozenset[TaskId] = NO_TASKS
    task_offsets: Mapping[TaskId, int] = field(default_factory=dict)
    """The sum of the changelog offsets that the member has restored, by task, as last reported.

    A client reports tasks with local state, except for active tasks that are processed.
    """
    task_end_offsets: Mapping[TaskId, int] = field(default_factory=dict)
    """The sum of the changelog end offsets, as last reported by the member."""
    reports_offsets: bool = True
    """Whether its client reports offsets, that is heartbeats of version 1 (Kafka 4.4)."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, AssignmentMember]
    """Members by id. Members of equal load receive tasks in this order."""
    num_standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    """A process is caught up on a task if its lag is at most this many records."""
    max_warmup_replicas: int = 2
    rack_aware_tags: tuple[str, ...] = ()
    """The client tags whose values the replicas of a task should differ in."""


@dataclass(frozen=True, slots=True)
class Subtopology:
    partition_count: int
    """Tasks of the subtopology: the highest partition count of its source topics."""
    is_stateful: bool = False
    """Whether it has a changelog topic."""


@dataclass(frozen=True, slots=True)
class Topology:
    subtopologies: Mapping[str, Subtopology]
    """Subtopologies by id, sorted by id."""

    def tasks(self, *, stateful_only: bool = False) -> Iterator[TaskId]:
        for subtopology_id, subtopology in self.subtopologies.items():
            if subtopology.is_stateful or not stateful_only:
                for partition in range(subtopology.partition_count):
                    yield TaskId(subtopology_id, partition)


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """The target of a member."""

    active: frozenset[TaskId] = NO_TASKS
    standby: frozenset[TaskId] = NO_TASKS
    warmup: frozenset[TaskId] = NO_TASKS


TaskAssignment: TypeAlias = Mapping[str, MemberTasks]
"""The target of each member by member id; every member of the group has one."""


class TaskAssignor(Protocol):
    @property
    def name(self) -> str:
        """The name in `streams.assignor.name` and `group.streams.assignors`."""
        ...

    @property
    def uses_offsets(self) -> bool:
        """Whether the result depends on the offsets that members report."""
        ...

    def assign(self, group: GroupSpec, topology: Topology) -> TaskAssignment: ...


class TaskAssignorError(Exception):
    """The tasks cannot be assigned; the message contains the reason."""
