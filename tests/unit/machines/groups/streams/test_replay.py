"""Streams groups that are loaded from their records."""

from __future__ import annotations

import pytest

from ruslo.machines.assignors.streams.model import MemberTasks, TaskId
from ruslo.machines.groups.records import GroupRecord, consumer_record, tombstone
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import MemberState, StreamsMember
from ruslo.machines.groups.streams.records import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
)
from ruslo.machines.groups.streams.tasks import HeldTasks
from ruslo.model.errors import CorruptLogError
from ruslo.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ruslo.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ruslo.protocol.messages.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from ruslo.protocol.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from tests.support.groups.group_bench import GroupBench
from tests.support.groups.streams_transcript import (
    READY,
    StreamsTranscript,
    StreamThread,
    streams_bench,
)

T0, T1 = TaskId("0", 0), TaskId("0", 1)
MEMBER = StreamsMember("a", epoch=2, process_id="p", assigned=HeldTasks({T0: 2}))


def replayed(*records: GroupRecord) -> GroupBench:
    bench = streams_bench()
    for offset, record in enumerate(records):
        bench.shard.replay(record, offset)
    return bench


def group_in(bench: GroupBench) -> StreamsGroup:
    group = bench.shard.state.groups["g"]
    assert isinstance(group, StreamsGroup)
    return group


def test_a_load_restores_everything_that_is_logged() -> None:
    transcript = StreamsTranscript(topics=READY)
    a, b = StreamThread(transcript, "a"), StreamThread(transcript, "b", instance_id="i")
    a.join()
    b.join()
    a.heartbeat()
    before = group_in(transcript.bench)
    transcript.reload()
    after = group_in(transcript.bench)
    assert after is not before
    for name in ("members", "target", "topology", "epoch", "target_epoch", "metadata_hash"):
        assert getattr(after, name) == getattr(before, name), name
    a.report_tasks()
    b.heartbeat()
    assert after.epoch == before.epoch
    assert b.tasks


def test_records_without_assignment_epochs_have_the_member_epoch() -> None:
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=99,
        active_tasks=[TaskIds(subtopology_id="0", partitions=[0, 1], assignment_epochs=None)],
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
    member = group_in(replayed(consumer_record(key, value))).members["a"]
    assert member.assigned.active == {T0: 7, T1: 7}
    assert member.state is MemberState.UNKNOWN


def test_tombstones_of_unknown_keys_are_ignored() -> None:
    bench = replayed(*group_tombstones("g", ["a"]), *member_tombstones("g", "a"))
    assert bench.shard.state.groups == {}


def test_a_group_is_removed_by_its_tombstones() -> None:
    records = [
        member_record("g", MEMBER),
        epoch_record("g", 2, 0, -1, {}),
        target_record("g", "a", MemberTasks(frozenset({T0}))),
        target_epoch_record("g", 2, 1),
        current_record("g", MEMBER),
    ]
    assert group_in(replayed(*records)).is_active(T0)
    assert replayed(*records, *group_tombstones("g", ["a"])).shard.state.groups == {}


def test_tombstones_in_an_impossible_order_do_not_load() -> None:
    current, _, metadata = member_tombstones("g", "a")
    loaded = [member_record("g", MEMBER), target_record("g", "a", MemberTasks()), current_record("g", MEMBER)]
    for wrong in ([metadata], [current, metadata], [tombstone(StreamsGroupMetadataKey(group_id="g"))]):
        with pytest.raises(CorruptLogError):
            replayed(*loaded, *wrong)
    with pytest.raises(CorruptLogError):
        replayed(*loaded, *group_tombstones("g", []))


def test_records_of_another_kind_of_group_do_not_load() -> None:
    other = consumer_record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=1))
    with pytest.raises(CorruptLogError):
        replayed(other, epoch_record("g", 2, 0, -1, {}))


def test_a_member_that_is_replaced_passes_its_tasks_on() -> None:
    bench = replayed(member_record("g", MEMBER), current_record("g", MEMBER))
    group = group_in(bench)
    assert group.is_active_in(T0, "p")
    assert not group.is_active_in(T0, "q")
    for offset, record in enumerate(member_tombstones("g", "a"), 2):
        bench.shard.replay(record, offset)
    assert not group.is_active(T0)
    assert group.members == {}
