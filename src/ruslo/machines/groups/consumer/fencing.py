"""Removes members that leave, are removed by an administrator, or exceed a timeout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ruslo.machines.groups.consumer import conversion, topic_hash
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember
from ruslo.machines.groups.consumer.records import (
    current_record,
    epoch_record,
    member_tombstones,
    regex_tombstone,
)
from ruslo.machines.groups.epoch_group import STATIC_LEAVE_EPOCH, removal
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome

_MEMBER_TIMERS = (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC)


def remove(
    shard: ShardState, group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int
) -> GroupOutcome:
    """Remove members. The group gets a new target, or is downgraded if only classic members stay."""
    if not members:
        return Outcome()
    member_ids = [member.member_id for member in members]
    for member_id in member_ids:
        cancel_timers(shard, group, member_id)

    outcome = removal(shard, group, member_ids)
    if conversion.downgrades_without(shard, group, members):
        staying = [member for member in group.members.values() if member.member_id not in member_ids]
        conversion.downgrade(shard, group, staying, now_ms, outcome)
        return outcome
    for member in members:
        outcome.append(member_tombstones(group.group_id, member.member_id))
    users = Counter(member.regex for member in members if member.regex)
    unused = [regex for regex, count in users.items() if group.regex_count(regex) == count]
    outcome.append([regex_tombstone(group.group_id, regex) for regex in unused])
    metadata_hash = topic_hash.of_topics(shard.topics, group.topics_without(members, unused))
    outcome.append([epoch_record(group.group_id, group.epoch + 1, metadata_hash)])
    return outcome


def leave_temporarily(shard: ShardState, group: ConsumerGroup, member: ConsumerMember) -> GroupOutcome:
    """A static member leaves temporarily: it keeps its partitions until its session expires.

    Their assignment epochs start at 0 again, because another member id will own them then.
    """
    shard.timers.cancel(TimerKey(group.group_id, member.member_id, TimerKind.REBALANCE))
    gone = replace(
        member,
        epoch=STATIC_LEAVE_EPOCH,
        assigned={topic_id: dict.fromkeys(held, 0) for topic_id, held in member.assigned.items()},
        pending_revocation={},
    )
    return Outcome(records=[current_record(group.group_id, gone)])


def cancel_timers(shard: ShardState, group: ConsumerGroup, member_id: str) -> None:
    for kind in _MEMBER_TIMERS:
        shard.timers.cancel(TimerKey(group.group_id, member_id, kind))
