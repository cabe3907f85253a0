"""Replaying a log: the resulting state, and which logs are corrupt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember, MemberState
from ruslo.machines.groups.consumer.records import (
    current_record,
    epoch_record,
    epoch_tombstone,
    group_tombstones,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from ruslo.machines.groups.consumer.replay import replay
from ruslo.machines.groups.group import Group
from ruslo.machines.groups.records import GroupRecord, classic_group_record
from ruslo.model.errors import CorruptLogError
from ruslo.protocol.coordinator_records import GROUP_RECORDS
from ruslo.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ruslo.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ruslo.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ruslo.protocol.messages.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
)
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import GroupBench, topic_id

TOPIC = topic_id(1_000)


def having(member_id: str, epoch: int, *partitions: int, revoke: Sequence[int] = ()) -> GroupRecord:
    return current_record(
        "g",
        ConsumerMember(
            member_id,
            epoch=epoch,
            assigned={TOPIC: dict.fromkeys(partitions, epoch)} if partitions else {},
            pending_revocation={TOPIC: dict.fromkeys(revoke, epoch)} if revoke else {},
        ),
    )


def member(member_id: str) -> GroupRecord:
    return member_record("g", ConsumerMember(member_id, topic_names=frozenset({"orders"})))


def loaded(*records: GroupRecord) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for record in records:
        replay(groups, record)
    return groups


def test_coordinator_move_loses_nothing() -> None:
    transcript = Transcript()
    a, b = (
        Consumer(transcript, "a", "orders", instance_id="i"),
        Consumer(transcript, "b", "orders", "parcels"),
    )
    a.join()
    transcript.bench.advance(1_000)
    b.join()
    a.heartbeat()
    before = transcript.bench.shard.state.groups["g"]
    assert isinstance(before, ConsumerGroup)
    transcript.reload()
    after = transcript.bench.shard.state.groups["g"]
    assert isinstance(after, ConsumerGroup)
    assert after is not before
    hard = ("epoch", "metadata_hash", "target_epoch", "target_ms", "members", "static_members", "target")
    assert {name: getattr(after, name) for name in hard} == {name: getattr(before, name) for name in hard}
    transcript.lines.clear()
    a.report_owned("reports the revocation")
    b.heartbeat()
    assert transcript.lines[-1] == "b at 3 has orders:3 parcels:0,1"


def test_deleted_group_leaves_no_state() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", regex="par.*")
    a.join()
    transcript.resolve({"par.*": ["parcels"]})
    a.leave()
    transcript.bench.reload()
    groups = transcript.bench.shard.state.groups
    assert groups["g"].is_empty
    for record in groups["g"].tombstones():
        replay(groups, record)
    assert groups == {}


@pytest.mark.parametrize(
    "records",
    [
        (member("a"), having("a", 2), *member_tombstones("g", "a")[2:]),
        (
            member("a"),
            having("a", 2),
            target_record("g", "a", {}),
            *member_tombstones("g", "a")[:1],
            *member_tombstones("g", "a")[2:],
        ),
        (member("a"), epoch_record("g", 2, 0), epoch_tombstone("g")),
        (epoch_record("g", 2, 0), epoch_tombstone("g")),
        (target_record("g", "a", {}), *group_tombstones("g", [], [])),
        (having("a", 2, 0), having("b", 2, 0)),
        (having("a", 3, 0), having("b", 2, 0)),
        (having("a", 3, revoke=[0]), having("b", 3, 0)),
    ],
    ids=[
        "member ends before its assignment",
        "member ends before its target",
        "group ends before its members",
        "group ends before its target epoch",
        "target epoch ends before the targets",
        "two have a partition",
        "the older one came later",
        "one has still to revoke it",
    ],
)
def test_invalid_logs_are_rejected(records: tuple[GroupRecord, ...]) -> None:
    with pytest.raises(CorruptLogError):
        loaded(*records)


def test_consumer_records_for_a_live_classic_group() -> None:
    bench = GroupBench()
    classic = classic_group_record(
        "g", protocol_type="consumer", generation=1, protocol="range", leader="c", state_ms=0
    )
    bench.shard.replay(classic, 0)
    with pytest.raises(CorruptLogError, match="has a record of a consumer group"):
        bench.shard.replay(epoch_record("g", 1, 0), 1)


def test_newer_epoch_owns_the_partition() -> None:
    """Compaction may have removed the record with which the previous owner revoked the partition."""
    groups = loaded(having("a", 2, 0), having("b", 3, 0), having("a", 3))
    group = groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.is_held(TOPIC, 0)
    replay(groups, having("b", 4))
    assert not group.is_held(TOPIC, 0)


def test_tombstones_of_unknown_consumer_groups_are_ignored() -> None:
    unknown = group_tombstones("g", ["a"], ["x.*"])
    assert loaded(*unknown) == {}
    groups = loaded(epoch_record("g", 2, 0), *member_tombstones("g", "a"), regex_tombstone("g", "x.*"))
    assert list(groups) == ["g"]


def test_assignment_without_epochs_has_the_epoch_of_its_member() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        assigned_partitions=[TopicPartitions(topic_id=TOPIC, partitions=[0, 1], assignment_epochs=None)],
    )
    record = having("a", 7)
    groups = loaded(GroupRecord(record.key, value))
    group = groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.members["a"].assigned == {TOPIC: {0: 7, 1: 7}}


def test_member_in_an_unknown_state_is_fenced() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders")
    a.join()
    record = having("a", 2, 0, 1)
    assert isinstance(record.value, ConsumerGroupCurrentMemberAssignmentValue)
    record.value.state = 42
    transcript.bench.shard.replay(record, len(transcript.bench.log))
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.members["a"].state is MemberState.UNKNOWN
    a.heartbeat()
    assert transcript.lines[-1] == "a: FENCED_MEMBER_EPOCH"
    a.join("drops all partitions and joins")
    assert transcript.lines[-1] == "a at 2 has orders:0,1,2,3"


def test_old_partition_metadata_is_removed() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders")
    a.join()
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    transcript.bench.shard.replay(
        GroupRecord(key, ConsumerGroupPartitionMetadataValue()), len(transcript.bench.log)
    )
    transcript.lines.clear()
    a.subscribe("parcels")
    assert transcript.lines[1:4] == ["5 a parcels", "3 epoch 3", "x4"]
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert not group.has_partition_metadata


def test_time_of_the_target_is_kept() -> None:
    groups = loaded(target_epoch_record("g", 5, 1234))
    group = groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert (group.target_epoch, group.target_ms) == (5, 1234)


def test_member_record_marks_the_member_as_not_classic() -> None:
    """A missing field would be read as empty classic metadata."""
    record = member("a")
    assert isinstance(record.value, ConsumerGroupMemberMetadataValue)
    encoded = GROUP_RECORDS.encode_value(record.value, 0)
    decoded, version = GROUP_RECORDS.decode_value(5, encoded)
    assert version == 0
    assert isinstance(decoded, ConsumerGroupMemberMetadataValue)
    assert decoded.classic_member_metadata is None
    assert decoded == record.value
