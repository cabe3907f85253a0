"""Removes expired offsets, empty groups, and offsets of deleted topics.

A sweep passes over the groups in several events, so requests are served in between; each event uses the state
of its time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ruslo.machines.groups.group import Group
from ruslo.machines.groups.offsets.store import CommittedOffset
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.records import NO_TIMESTAMP, GroupRecord, offset_tombstone
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import MAX_ITEMS_PER_EVENT, Outcome

MAX_TOMBSTONES_PER_BATCH = 400
"""A batch that is too large for ``max.message.bytes`` fails as a whole, and would fail with every retry."""
NO_GROUP = ""


@dataclass(slots=True)
class _Deletion:
    topics: frozenset[str]
    before_offset: int
    """Offsets with records from this log offset on belong to a new topic of that name."""
    groups: deque[str]
    partitions: deque[tuple[str, str, int]] = field(default_factory=deque)
    """The remaining partitions of groups that were removed from ``groups``."""


class Sweeps:
    __slots__ = ("_deletions", "_expiring")

    def __init__(self) -> None:
        self._expiring: deque[str] = deque()
        self._deletions: deque[_Deletion] = deque()

    def start(self, shard: ShardState, now_ms: int) -> None:
        interval_ms = shard.settings.offsets_retention_check_interval_ms
        shard.timers.set(TimerKey(NO_GROUP, None, TimerKind.SWEEP), now_ms + interval_ms)

    def topics_deleted(self, shard: ShardState, topics: frozenset[str], now_ms: int) -> None:
        groups = deque(shard.offsets.group_ids())
        if groups:
            self._deletions.append(_Deletion(topics, shard.next_offset, groups))
            shard.timers.set(TimerKey(NO_GROUP, None, TimerKind.TOPICS_DELETED), now_ms)

    def expire(self, shard: ShardState, now_ms: int) -> GroupOutcome:
        """Sweep the next groups; the timer fires again at once, or after the interval."""
        queue = self._expiring
        if not queue:
            queue.extend(shard.groups)
        records: list[GroupRecord] = []
        for _ in range(MAX_ITEMS_PER_EVENT):
            if not queue or len(records) >= MAX_TOMBSTONES_PER_BATCH:
                break
            group = shard.groups.get(queue.popleft())
            if group is not None:
                # The rest waits for the next sweep.
                records += _expired(shard, group)[:MAX_TOMBSTONES_PER_BATCH]
        if queue:
            shard.timers.set(TimerKey(NO_GROUP, None, TimerKind.SWEEP), now_ms)
        else:
            self.start(shard, now_ms)
        return Outcome(records=records)

    def forget_deleted(self, shard: ShardState, now_ms: int) -> GroupOutcome:
        records: list[GroupRecord] = []
        for _ in range(MAX_ITEMS_PER_EVENT):
            if not self._deletions or len(records) >= MAX_TOMBSTONES_PER_BATCH:
                break
            deletion = self._deletions[0]
            if not deletion.partitions:
                deletion.partitions += _partitions(shard, deletion, deletion.groups.popleft())
            while deletion.partitions and len(records) < MAX_TOMBSTONES_PER_BATCH:
                key = deletion.partitions.popleft()
                if _is_of_deleted(shard, deletion, *key):
                    records.append(offset_tombstone(*key))
            if not deletion.partitions and not deletion.groups:
                self._deletions.popleft()
        if self._deletions:
            shard.timers.set(TimerKey(NO_GROUP, None, TimerKind.TOPICS_DELETED), now_ms)
        return Outcome(records=records)


def _expired(shard: ShardState, group: Group) -> list[GroupRecord]:
    """The tombstones of expired offsets, and of the group if it is empty then."""
    store, group_id = shard.offsets, group.group_id
    records: list[GroupRecord] = []
    keeps_some = store.has_pending(group_id)
    for topic, offsets in store.of_group(group_id).items():
        subscribed = group.subscribes_to(topic)
        for partition, offset in offsets.items():
            if (
                not subscribed
                and not store.is_pending(group_id, topic, partition)
                and _is_expired(shard, group, topic, offset)
            ):
                records.append(offset_tombstone(group_id, topic, partition))
            else:
                keeps_some = True
    if group.expires and group.is_empty and not keeps_some:
        records += group.tombstones()
    return records


def _is_expired(shard: ShardState, group: Group, topic: str, offset: CommittedOffset) -> bool:
    start_ms = group.retention_start_ms(topic, offset.commit_ms)
    if start_ms is None:
        return False
    if offset.expire_ms != NO_TIMESTAMP:
        return shard.wall_ms >= offset.expire_ms
    return shard.wall_ms - start_ms >= shard.settings.offsets_retention_ms


def _partitions(shard: ShardState, deletion: _Deletion, group_id: str) -> list[tuple[str, str, int]]:
    return [
        (group_id, topic, partition)
        for topic, partition in shard.offsets.partitions_of(group_id)
        if topic in deletion.topics
    ]


def _is_of_deleted(shard: ShardState, deletion: _Deletion, group_id: str, topic: str, partition: int) -> bool:
    """Whether no newer offset was committed; a tombstone would remove pending ones of transactions too."""
    last = shard.offsets.last_record_offset(group_id, topic, partition)
    return last is not None and last < deletion.before_offset
