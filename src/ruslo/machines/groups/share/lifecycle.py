"""Share groups and events without a request: loads, metadata changes, timers."""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.share import fencing, initialization
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.share.records import states_record
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome
from ruslo.model.ids import Uuid


def loaded(shard: ShardState, now_ms: int) -> None:
    """Start a full session for every member: the time of the last heartbeats is unknown."""
    for group in share_groups(shard):
        initialization.loaded(shard, group, now_ms)
        deadline_ms = now_ms + shard.settings.share_session_timeout_of(group.group_id)
        for member_id in group.members:
            shard.timers.set(TimerKey(group.group_id, member_id, TimerKind.SESSION), deadline_ms)


def topics_changed(
    shard: ShardState, changed_topics: frozenset[str], deleted_topic_ids: frozenset[Uuid], now_ms: int
) -> None:
    """Groups apply the change with their next heartbeat, and forget deleted topics at once."""
    for group in share_groups(shard):
        if group.subscribes_to_any(changed_topics):
            group.refreshed_epoch = None
        group.changed()
        if deleted_topic_ids and group.states.has_any(deleted_topic_ids):
            group.deleted_topic_ids |= deleted_topic_ids
            shard.timers.set(TimerKey(group.group_id, None, TimerKind.SHARE_TOPICS_DELETED), now_ms)


def fired(shard: ShardState, group: ShareGroup, member_id: str | None, kind: TimerKind) -> GroupOutcome:
    if kind is TimerKind.SHARE_TOPICS_DELETED:
        states = group.states.without_topics(group.deleted_topic_ids)
        group.deleted_topic_ids = frozenset()
        if states == group.states:
            return Outcome()
        return Outcome(records=[states_record(group.group_id, states)])
    member = None if member_id is None else group.members.get(member_id)
    if member is None or kind is not TimerKind.SESSION:
        return Outcome()
    return fencing.remove(shard, group, member)


def share_groups(shard: ShardState) -> Iterator[ShareGroup]:
    return (group for group in shard.groups.values() if isinstance(group, ShareGroup))
