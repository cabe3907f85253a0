"""One member of a streams group (KIP-1071): a stream thread, and the progress of its reconciliation.

| state      | meaning                                                               |
|------------|-----------------------------------------------------------------------|
| STABLE     | it has all tasks of its target                                        |
| UNREVOKED  | it has to revoke tasks; until it reports that it did, its epoch stays |
| UNRELEASED | it is at the target epoch, but some of its tasks are not free yet     |

Members are immutable: a change creates a new one, so the old and the new one can be compared.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ruslo.machines.assignors.streams.model import TaskId
from ruslo.machines.groups.epoch_group import JOIN_EPOCH
from ruslo.machines.groups.streams.tasks import NO_HELD_TASKS, HeldTasks, TaskEpochs, task_ids
from ruslo.protocol.messages.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from ruslo.protocol.messages.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue


class MemberState(enum.IntEnum):
    """The numbers in records differ from those of consumer groups."""

    STABLE = 1
    UNREVOKED = 2
    UNRELEASED = 3
    UNKNOWN = 127
    """A state of a newer release."""


class UserEndpoint(NamedTuple):
    """The address at which an application answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    """The application instance (JVM); its members share the state on one local disk."""
    endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: HeldTasks = NO_HELD_TASKS
    pending_revocation: HeldTasks = NO_HELD_TASKS

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, task: TaskId) -> int | None:
        """The epoch since which the task is active here, even if it has to be revoked; None if it is not."""
        epoch = self.assigned.active.get(task)
        return self.pending_revocation.active.get(task) if epoch is None else epoch


def with_metadata(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    """The member after a record of type 19."""
    endpoint = value.user_endpoint
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in value.client_tags},
    )


def with_assignment(member: StreamsMember, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    """The member after a record of type 22."""
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state,
        assigned=HeldTasks(
            _task_epochs(value.active_tasks, value.member_epoch),
            task_ids(value.standby_tasks),
            task_ids(value.warmup_tasks),
        ),
        pending_revocation=HeldTasks(
            _task_epochs(value.active_tasks_pending_revocation, value.member_epoch),
            task_ids(value.standby_tasks_pending_revocation),
            task_ids(value.warmup_tasks_pending_revocation),
        ),
    )


def _task_epochs(subtopologies: Iterable[TaskIds], member_epoch: int) -> TaskEpochs:
    result: dict[TaskId, int] = {}
    for each in subtopologies:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            # A record without assignment epochs; the member's own epoch is an upper bound.
            epochs = [member_epoch] * len(each.partitions)
        for partition, epoch in zip(each.partitions, epochs, strict=True):
            result[TaskId(each.subtopology_id, partition)] = epoch
    return result
