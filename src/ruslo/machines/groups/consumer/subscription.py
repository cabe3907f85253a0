"""Stores the changed properties of a member, and bumps the group epoch if they matter to others."""

from __future__ import annotations

from typing import NamedTuple

from ruslo.machines.groups.consumer import regexes, topic_hash
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember
from ruslo.machines.groups.consumer.records import (
    epoch_record,
    member_record,
    partition_metadata_tombstone,
)
from ruslo.machines.groups.consumer.regexes import RegexChange
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.model.principals import ANONYMOUS, Principal


class Change(NamedTuple):
    group_epoch: int
    """The group epoch after the change."""
    of_subscription: bool
    """Whether the topic names or the regular expression changed."""


def save(
    shard: ShardState,
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    now_ms: int,
    outcome: GroupOutcome,
    *,
    unresolved_bumps: bool = False,
    principal: Principal = ANONYMOUS,
) -> Change:
    """Add a record of the member if it changed, and of the group epoch if the target may change.

    ``unresolved_bumps``: a changed pattern bumps the epoch even if it is not resolved. ``principal``: the
    client that changes it.
    """
    if new != old:
        outcome.append([member_record(group.group_id, new)])
    names_changed = new.topic_names != old.topic_names
    regex_change = regexes.changed(shard, group, old, new, now_ms, outcome, principal)
    bump = names_changed or regex_change is RegexChange.RESOLVED
    if unresolved_bumps and regex_change is RegexChange.UNRESOLVED:
        bump = True
    epoch = group.epoch
    if bump or group.refresh_due:
        metadata_hash = topic_hash.of_topics(shard.topics, group.topics_with(old, new))
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            outcome.append([epoch_record(group.group_id, epoch, metadata_hash)])
        group.refreshed_epoch = epoch
        if group.has_partition_metadata:
            outcome.append([partition_metadata_tombstone(group.group_id)])
    return Change(epoch, names_changed or regex_change is not RegexChange.NONE)
