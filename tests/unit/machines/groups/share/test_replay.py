"""Records of share groups: what a log may contain, and what it cannot."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.records import GroupRecord, tombstone
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.share.member import ShareMember
from ruslo.machines.groups.share.partition_states import NamedPartitions, PartitionStates
from ruslo.machines.groups.share.records import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    states_record,
    target_epoch_record,
    target_record,
)
from ruslo.model.errors import CorruptLogError
from ruslo.protocol.messages.share_group_metadata_key import ShareGroupMetadataKey
from ruslo.protocol.messages.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from tests.support.groups.consumer_transcript import Consumer
from tests.support.groups.group_bench import GroupBench, topic_id
from tests.support.groups.share_transcript import ShareTranscript

ORDERS = topic_id(1_000)
MEMBER = ShareMember("a", 3, 2, "north", "app", "/host", frozenset({"orders"}), {ORDERS: frozenset({0, 2})})
STATES = PartitionStates(
    {ORDERS: NamedPartitions("orders", frozenset({2}))},
    {ORDERS: NamedPartitions("orders", frozenset({0, 1}))},
    {topic_id(7): "gone"},
)
RECORDS = [
    member_record("g", MEMBER),
    epoch_record("g", 3, 77),
    target_record("g", "a", MEMBER.assigned),
    target_epoch_record("g", 3, 1_000),
    current_record("g", MEMBER),
    states_record("g", STATES),
]


def replayed(*records: GroupRecord) -> GroupBench:
    bench = GroupBench()
    for offset, record in enumerate(records):
        bench.shard.replay(record, offset)
    return bench


def test_records_hold_the_whole_group() -> None:
    group = replayed(*RECORDS).shard.state.groups["g"]
    assert isinstance(group, ShareGroup)
    assert (group.epoch, group.metadata_hash, group.target_epoch, group.target_ms) == (3, 77, 3, 1_000)
    assert group.members == {"a": MEMBER}
    assert group.target == {"a": MEMBER.assigned}
    assert group.states == STATES


def test_records_may_come_in_another_order() -> None:
    groups = replayed(*reversed(RECORDS)).shard.state.groups
    group = groups["g"]
    assert isinstance(group, ShareGroup)
    assert group.members == {"a": MEMBER}
    assert group.states == STATES


def test_tombstones_remove_the_group() -> None:
    assert replayed(*RECORDS, *group_tombstones("g", ["a"])).shard.state.groups == {}


def test_tombstones_that_compaction_left_behind_are_ignored() -> None:
    assert replayed(*group_tombstones("g", ["a"])).shard.state.groups == {}
    group = replayed(RECORDS[1], *member_tombstones("g", "b")).shard.state.groups["g"]
    assert group.is_empty


@pytest.mark.parametrize(
    "record",
    [
        tombstone(ShareGroupMetadataKey(group_id="g")),
        tombstone(ShareGroupTargetAssignmentMetadataKey(group_id="g")),
        member_tombstones("g", "a")[2],
    ],
)
def test_tombstones_in_a_wrong_order_cannot_be_loaded(record: GroupRecord) -> None:
    with pytest.raises(CorruptLogError):
        replayed(*RECORDS, record)


def test_a_group_cannot_change_its_type() -> None:
    transcript = ShareTranscript()
    Consumer(transcript, "c", "orders").join()
    with pytest.raises(CorruptLogError, match="is a consumer group"):
        transcript.bench.shard.replay(RECORDS[0], 100)
