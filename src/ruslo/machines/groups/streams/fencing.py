"""Removes members that leave or exceed a timeout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ruslo.machines.groups.epoch_group import STATIC_LEAVE_EPOCH, removal
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import StreamsMember
from ruslo.machines.groups.streams.records import current_record, epoch_record, member_tombstones
from ruslo.machines.groups.streams.tasks import NO_HELD_TASKS
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome


def remove(shard: ShardState, group: StreamsGroup, members: Sequence[StreamsMember]) -> GroupOutcome:
    """Remove members; the next heartbeat of another member computes a new target."""
    outcome = removal(shard, group, [member.member_id for member in members])
    for member in members:
        for kind in (TimerKind.SESSION, TimerKind.REBALANCE):
            shard.timers.cancel(TimerKey(group.group_id, member.member_id, kind))
        outcome.append(member_tombstones(group.group_id, member.member_id))
    outcome.append(
        [
            epoch_record(
                group.group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            )
        ]
    )
    return outcome


def leave_temporarily(shard: ShardState, group: StreamsGroup, member: StreamsMember) -> GroupOutcome:
    """A static member leaves temporarily: it keeps its tasks until its session expires.

    Their assignment epochs start at 0 again, because another member id will have them then.
    """
    shard.timers.cancel(TimerKey(group.group_id, member.member_id, TimerKind.REBALANCE))
    assigned = replace(member.assigned, active=dict.fromkeys(member.assigned.active, 0))
    gone = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=assigned, pending_revocation=NO_HELD_TASKS)
    return Outcome(records=[current_record(group.group_id, gone)])
