"""Removes members that leave or whose session has expired."""

from __future__ import annotations

from ruslo.machines.groups.consumer import topic_hash
from ruslo.machines.groups.epoch_group import removal
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.share.member import ShareMember
from ruslo.machines.groups.share.records import epoch_record, member_tombstones
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind


def remove(shard: ShardState, group: ShareGroup, member: ShareMember) -> GroupOutcome:
    """The other members get a new target with their next heartbeats."""
    shard.timers.cancel(TimerKey(group.group_id, member.member_id, TimerKind.SESSION))
    outcome = removal(shard, group, [member.member_id])
    outcome.append(member_tombstones(group.group_id, member.member_id))
    metadata_hash = topic_hash.of_topics(shard.topics, group.topic_names_with(member, None))
    outcome.append([epoch_record(group.group_id, group.epoch + 1, metadata_hash)])
    return outcome
