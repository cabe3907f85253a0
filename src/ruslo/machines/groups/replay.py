"""Applies records to the state of a shard: while it is loaded, and its own records while it leads."""

from __future__ import annotations

from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.consumer import replay as consumer_replay
from ruslo.machines.groups.offsets.store import CommittedOffset
from ruslo.machines.groups.records import (
    CONSUMER_GROUP_TYPES,
    SHARE_GROUP_TYPES,
    STREAMS_GROUP_TYPES,
    EndTxnMarker,
    GroupRecord,
)
from ruslo.machines.groups.share import replay as share_replay
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams import replay as streams_replay
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue
from ruslo.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from ruslo.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from ruslo.protocol.messages.offset_commit_value import OffsetCommitValue


def replay(shard: ShardState, record: GroupRecord | EndTxnMarker, offset: int) -> None:
    shard.next_offset = offset + 1
    if isinstance(record, EndTxnMarker):
        shard.offsets.end_transaction(record.producer_id, committed=record.committed)
        return
    key = record.key
    if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
        _replay_offset(shard, key, record, offset)
    elif isinstance(key, GroupMetadataKey):
        _replay_classic_group(shard, key.group, record)
    elif key.API_KEY in CONSUMER_GROUP_TYPES:
        consumer_replay.replay(shard.groups, record)
    elif key.API_KEY in STREAMS_GROUP_TYPES:
        streams_replay.replay(shard, record)
    elif key.API_KEY in SHARE_GROUP_TYPES:
        share_replay.replay(shard.groups, record)
    # Other types belong to kinds of groups that this release does not serve; they stay in the log.


def _replay_offset(
    shard: ShardState, key: OffsetCommitKey | LegacyOffsetCommitKey, record: GroupRecord, offset: int
) -> None:
    group_id, value = key.group, record.value
    if value is None:
        shard.offsets.remove(group_id, key.topic, key.partition)
        return
    if isinstance(value, OffsetCommitValue):
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            offset,
        )
    else:
        assert isinstance(value, LegacyOffsetCommitValue)
        committed = CommittedOffset(
            value.offset, -1, value.metadata, value.commit_timestamp, record_offset=offset
        )
    if group_id not in shard.groups:
        # A commit without a member creates a group that consists only of its offsets.
        shard.groups[group_id] = ClassicGroup(group_id)
    if record.producer is None:
        shard.offsets.put(group_id, key.topic, key.partition, committed)
    else:
        shard.offsets.put_pending(record.producer.id, group_id, key.topic, key.partition, committed)


def _replay_classic_group(shard: ShardState, group_id: str, record: GroupRecord) -> None:
    known, value = shard.groups.get(group_id), record.value
    if value is None:
        if isinstance(known, ClassicGroup):
            known.cancel_timers(shard.timers)
            del shard.groups[group_id]
        return
    if shard.active and isinstance(known, ClassicGroup):
        # The record is a snapshot of this group, which may have changed since.
        known.recorded = True
        return
    assert isinstance(value, GroupMetadataValue)
    shard.groups[group_id] = ClassicGroup.from_record(group_id, value)
