"""One step of a member towards its target, as far as revocations allow.

For each role (active, standby, warm-up): keep = held ∩ target, revoke = held \\ keep, add = target \\ keep
without tasks that must first be released elsewhere. While the member has tasks to revoke, it gets no others.

| role            | a task waits while                                                                       |
|-----------------|------------------------------------------------------------------------------------------|
| active          | it is active at any member, or has another role in the same process                      |
| standby, warmup | it has any role in the same process                                                      |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ruslo.machines.assignors.streams.model import MemberTasks, TaskId
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import MemberState, StreamsMember
from ruslo.machines.groups.streams.tasks import NO_HELD_TASKS, HeldTasks
from ruslo.model.errors import ErrorCode, KafkaError


def reconcile(
    group: StreamsGroup,
    member: StreamsMember,
    *,
    target_epoch: int,
    target: MemberTasks,
    owned: MemberTasks | None,
) -> StreamsMember:
    """The member after the step; an equal object if no step is possible.

    ``owned``: the tasks that the member reports to have; None: the request does not contain them.
    """
    if member.is_reconciled_to(target_epoch):
        return member
    step = _Step(group, member, target_epoch, target, owned)
    if member.state is MemberState.UNREVOKED:
        if owned is None or member.pending_revocation.shares_any(owned):
            return member
        return step.towards_target(member.epoch + 1)
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned != MemberTasks():
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member is in a state of a newer release. Abandon all tasks and rejoin.",
            )
        return step.towards_target(target_epoch)
    return step.towards_target(member.epoch)


@dataclass(frozen=True, slots=True)
class _Step:
    _group: StreamsGroup
    _member: StreamsMember
    _target_epoch: int
    _target: MemberTasks
    _owned: MemberTasks | None

    def towards_target(self, epoch: int) -> StreamsMember:
        held, target, owned = self._member.assigned, self._target, self._owned
        keep = HeldTasks(
            {task: since for task, since in held.active.items() if task in target.active},
            held.standby & target.standby,
            held.warmup & target.warmup,
        )
        revoke = HeldTasks(
            {task: since for task, since in held.active.items() if task not in target.active},
            held.standby - target.standby,
            held.warmup - target.warmup,
        )
        if revoke and (owned is None or revoke.shares_any(owned)):
            return self._moved(epoch, MemberState.UNREVOKED, keep, revoke)
        active = {task for task in target.active - keep.active.keys() if self._is_free(task)}
        standby = {task for task in target.standby - keep.standby if self._has_room(task)}
        warmup = {task for task in target.warmup - keep.warmup if self._has_room(task)}
        assigned = HeldTasks(
            {**keep.active, **dict.fromkeys(active, self._target_epoch)},
            keep.standby | standby,
            keep.warmup | warmup,
        )
        is_complete = assigned.contains(target)
        state = MemberState.STABLE if is_complete else MemberState.UNRELEASED
        return self._moved(self._target_epoch, state, assigned, NO_HELD_TASKS)

    def _is_free(self, task: TaskId) -> bool:
        """Whether the task may become active at the member."""
        group = self._group
        return not (group.is_active(task) or group.is_replica_in(task, self._member.process_id))

    def _has_room(self, task: TaskId) -> bool:
        """Whether the member's process may keep another replica of the task's state."""
        group, process_id = self._group, self._member.process_id
        return not (group.is_active_in(task, process_id) or group.is_replica_in(task, process_id))

    def _moved(
        self, epoch: int, state: MemberState, assigned: HeldTasks, pending: HeldTasks
    ) -> StreamsMember:
        return replace(
            self._member,
            epoch=epoch,
            previous_epoch=self._member.epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending,
        )
