"""Builds the records of streams groups, types 17 and 19 to 23."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.machines.assignors.streams.model import MemberTasks, TaskId
from ruslo.machines.groups.records import GroupRecord, consumer_record, tombstone
from ruslo.machines.groups.streams.member import StreamsMember
from ruslo.machines.groups.streams.tasks import TaskEpochs, by_subtopology
from ruslo.protocol.messages.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.streams_group_current_member_assignment_value import (
    TaskIds as CurrentTasks,
)
from ruslo.protocol.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ruslo.protocol.messages.streams_group_member_metadata_value import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataValue,
)
from ruslo.protocol.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from ruslo.protocol.messages.streams_group_metadata_value import (
    LastAssignmentConfig,
    StreamsGroupMetadataValue,
)
from ruslo.protocol.messages.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from ruslo.protocol.messages.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from ruslo.protocol.messages.streams_group_target_assignment_member_value import (
    TaskIds as TargetTasks,
)
from ruslo.protocol.messages.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from ruslo.protocol.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from ruslo.protocol.messages.streams_group_topology_key import StreamsGroupTopologyKey


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> GroupRecord:
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)
        ],
    )
    return consumer_record(StreamsGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: StreamsMember) -> GroupRecord:
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())],
    )
    return consumer_record(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The tombstones of types 22, 21 and 19; another order cannot be loaded."""
    return [
        tombstone(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def target_epoch_record(group_id: str, epoch: int, computed_ms: int) -> GroupRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=computed_ms
    )
    return consumer_record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: MemberTasks) -> GroupRecord:
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_tasks(target.active),
        standby_tasks=_target_tasks(target.standby),
        warmup_tasks=_target_tasks(target.warmup),
    )
    return consumer_record(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value
    )


def current_record(group_id: str, member: StreamsMember) -> GroupRecord:
    assigned, pending = member.assigned, member.pending_revocation
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        active_tasks=_active_tasks(assigned.active),
        standby_tasks=_current_tasks(assigned.standby),
        warmup_tasks=_current_tasks(assigned.warmup),
        active_tasks_pending_revocation=_active_tasks(pending.active),
        standby_tasks_pending_revocation=_current_tasks(pending.standby),
        warmup_tasks_pending_revocation=_current_tasks(pending.warmup),
    )
    return consumer_record(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value
    )


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[GroupRecord]:
    """The tombstones of all records of a group, in an order that can be loaded."""
    of_members = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in of_members),
        *(target for _, target, _ in of_members),
        tombstone(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(metadata for _, _, metadata in of_members),
        tombstone(StreamsGroupMetadataKey(group_id=group_id)),
        tombstone(StreamsGroupTopologyKey(group_id=group_id)),
    ]


def _target_tasks(tasks: Iterable[TaskId]) -> list[TargetTasks]:
    return [
        TargetTasks(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def _current_tasks(tasks: Iterable[TaskId]) -> list[CurrentTasks]:
    # Left out the epochs would read as an empty list, not as none.
    return [
        CurrentTasks(subtopology_id=subtopology_id, partitions=partitions, assignment_epochs=None)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def _active_tasks(tasks: TaskEpochs) -> list[CurrentTasks]:
    return [
        CurrentTasks(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[tasks[TaskId(subtopology_id, partition)] for partition in partitions],
        )
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]
