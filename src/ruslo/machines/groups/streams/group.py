"""A streams group (KIP-1071): its topology, its members, their target assignment, and its epochs.

    Empty ──▶ NotReady (topics are missing, or do not fit the topology)
          ──▶ Assigning (target epoch < group epoch) ──▶ Reconciling (member epochs behind) ──▶ Stable

Only ``replay`` calls the methods that change logged state, such as ``put_member``. Everything from
``configured`` on is soft state: the first heartbeats after a load rebuild it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ruslo.machines.assignors.streams.model import NO_TASKS, MemberTasks, TaskId
from ruslo.machines.assignors.streams.recovery_lags import recovery_lag
from ruslo.machines.groups.consumer.ports import AssignorFailure
from ruslo.machines.groups.epoch_group import EpochGroup, StaticMembers
from ruslo.machines.groups.group import STREAMS, STREAMS_PROTOCOL, Committer
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.streams import offset_checks
from ruslo.machines.groups.streams.configured_topology import ConfiguredTopology
from ruslo.machines.groups.streams.member import StreamsMember
from ruslo.machines.groups.streams.records import group_tombstones
from ruslo.machines.groups.streams.tasks import HeldTasks
from ruslo.machines.groups.streams.topology import StreamsTopology
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.streams_group_describe_response import TopologyDescription
from ruslo.protocol.messages.streams_group_heartbeat_response import EndpointToPartitions

NO_TARGET_TASKS = MemberTasks()
NOT_VALIDATED = -1


@dataclass(slots=True)
class TaskOffsets:
    """The progress of a member's local state, as it last reported it."""

    offsets: Mapping[TaskId, int] = field(default_factory=dict)
    """The sum of restored changelog offsets by task."""
    end_offsets: Mapping[TaskId, int] = field(default_factory=dict)
    caught_up: frozenset[TaskId] = NO_TASKS
    """Standby and warm-up tasks that had caught up when the last target was requested because of them."""

    def keep(self, has_task: Callable[[TaskId], bool]) -> None:
        """Drop the offsets of tasks that do not exist."""
        self.offsets = {task: offset for task, offset in self.offsets.items() if has_task(task)}
        self.end_offsets = {task: offset for task, offset in self.end_offsets.items() if has_task(task)}

    def caught_up_of(self, tasks: Iterable[TaskId], acceptable_lag: int) -> frozenset[TaskId]:
        """The tasks of which at most so many records are still to be restored."""
        return frozenset(
            task
            for task in tasks
            if task in self.offsets
            and task in self.end_offsets
            and recovery_lag(self.offsets[task], self.end_offsets[task]) <= acceptable_lag
        )


@dataclass(slots=True, eq=False)
class StreamsGroup(EpochGroup[StreamsMember]):
    kind: ClassVar[str] = STREAMS

    static_members: StaticMembers = field(default_factory=StaticMembers)
    topology: StreamsTopology | None = None
    validated_topology_epoch: int = NOT_VALIDATED
    """The epoch of the topology if all its topics existed at the last group epoch, else -1."""
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    """The configs that the last target depends on; a change needs another target."""
    target: dict[str, MemberTasks] = field(default_factory=dict)
    """The target tasks by member id."""
    _active: dict[TaskId, set[str]] = field(default_factory=dict)
    """The members of each active task, which may have to revoke it."""
    _standby: dict[TaskId, set[str]] = field(default_factory=dict)
    _warmup: dict[TaskId, set[str]] = field(default_factory=dict)
    configured: ConfiguredTopology | None = None
    """The topology with the topics of the last group epoch."""
    failure: AssignorFailure | None = None
    """The failure of the last assignor run outside the event loop; None if it succeeded."""
    failure_retry_ms: int = 0
    """No target is computed earlier: the assignor failed, or its target could not be written."""
    endpoint_epoch: int = 0
    """An epoch that grows when tasks of a member with an endpoint change."""
    endpoint_partitions: dict[str, EndpointToPartitions] = field(default_factory=dict)
    """The endpoint with the partitions of its tasks by member id: a cache."""
    shutdown_requester: str | None = None
    """The member that has requested the shutdown of the application."""
    task_offsets: dict[str, TaskOffsets | None] = field(default_factory=dict)
    """Task offsets reported since the last load, by member id; None: the client does not report offsets."""
    description: tuple[int, TopologyDescription] | None = None
    """The topology in the words of the application, with its epoch (KIP-1331)."""

    # -- as all groups ---------------------------------------------------------------------------------------

    @property
    def protocol_type(self) -> str:
        return STREAMS_PROTOCOL

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def subscribes_to(self, topic: str) -> bool:
        return (
            bool(self.members) and self.topology is not None and topic in self.topology.subtopology_by_source
        )

    def tombstones(self) -> list[GroupRecord]:
        return group_tombstones(self.group_id, self.members)

    def check_offset_commit(self, committer: Committer) -> ErrorCode:
        return offset_checks.check_commit(self, committer)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return offset_checks.check_fetch(self, member_id, member_epoch)

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def retention_start_ms(self, topic: str, commit_ms: int) -> int | None:
        return None if self.subscribes_to(topic) else commit_ms

    # -- looking up ------------------------------------------------------------------------------------------

    def requires_any(self, topics: frozenset[str]) -> bool:
        return self.topology is not None and not self.topology.required_topics.isdisjoint(topics)

    def target_of(self, member: StreamsMember) -> MemberTasks:
        """The member's target; that of a static member belongs to the last owner of its instance id."""
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member.member_id)
        return NO_TARGET_TASKS if member_id is None else self.target.get(member_id, NO_TARGET_TASKS)

    def static_member(self, instance_id: str | None) -> StreamsMember | None:
        return self.static_members.owner(instance_id, self)

    def identified(self, member_id: str, instance_id: str | None) -> StreamsMember:
        """The existing member with this id; a static member must own its instance id."""
        return self.static_members.identified(member_id, instance_id, self)

    def is_active(self, task: TaskId) -> bool:
        """Whether the task is active at any member."""
        return task in self._active

    def is_active_in(self, task: TaskId, process_id: str) -> bool:
        return self._is_in(self._active, task, process_id)

    def is_replica_in(self, task: TaskId, process_id: str) -> bool:
        """Whether a member of the process has the task as a standby or warm-up task."""
        return self._is_in(self._standby, task, process_id) or self._is_in(self._warmup, task, process_id)

    def _is_in(self, holders: Mapping[TaskId, set[str]], task: TaskId, process_id: str) -> bool:
        return any(self.members[member_id].process_id == process_id for member_id in holders.get(task, ()))

    # -- changed by replay only ------------------------------------------------------------------------------

    def put_topology(self, topology: StreamsTopology | None) -> None:
        self.topology = topology
        self.configured = None
        self.endpoint_partitions.clear()

    def put_member(self, member: StreamsMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        self.members[member.member_id] = member
        self._hold(member)
        self.static_members.give(old, member)
        self.endpoint_partitions.pop(member.member_id, None)

    def remove_member(self, member_id: str) -> None:
        old = self.members[member_id]
        self._release(old)
        del self.members[member_id]
        self.static_members.give_up(old)
        self.endpoint_partitions.pop(member_id, None)
        self.task_offsets.pop(member_id, None)
        if not self.members:
            self.shutdown_requester = None
            self.description = None

    def _hold(self, member: StreamsMember) -> None:
        for holders, tasks in self._roles(member):
            for task in tasks:
                holders.setdefault(task, set()).add(member.member_id)

    def _release(self, member: StreamsMember) -> None:
        for holders, tasks in self._roles(member):
            for task in tasks:
                members = holders.get(task, set())
                members.discard(member.member_id)
                if not members:
                    holders.pop(task, None)

    def _roles(self, member: StreamsMember) -> Iterable[tuple[dict[TaskId, set[str]], Iterable[TaskId]]]:
        held: HeldTasks
        for held in (member.assigned, member.pending_revocation):
            yield self._active, held.active
            yield self._standby, held.standby
            yield self._warmup, held.warmup
