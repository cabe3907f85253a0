"""Streams groups and events without a request: loads, metadata changes, computed targets."""

from __future__ import annotations

from ruslo.machines.groups.epoch_group import watch_revocation
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import MemberState
from ruslo.machines.groups.timers import TimerKey, TimerKind


def loaded(shard: ShardState, group: StreamsGroup, now_ms: int) -> None:
    """Start a full session for every member, and a full rebalance timeout for every pending revocation."""
    session_ms = shard.settings.streams_config_of(group.group_id).session_timeout_ms
    for member in group.members.values():
        shard.timers.set(TimerKey(group.group_id, member.member_id, TimerKind.SESSION), now_ms + session_ms)
        if member.state is MemberState.UNREVOKED:
            watch_revocation(shard, group.group_id, member, now_ms)


def topics_changed(shard: ShardState, changed_topics: frozenset[str]) -> None:
    """Groups apply the change with their next heartbeat."""
    for group in shard.groups.values():
        if isinstance(group, StreamsGroup) and group.requires_any(changed_topics):
            group.refreshed_epoch = None
