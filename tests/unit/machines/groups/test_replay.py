"""Replaying group records of every version."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.records import (
    GroupRecord,
    classic_group_tombstone,
    offset_record,
    offset_tombstone,
)
from ruslo.protocol.coordinator_records import GROUP_RECORDS
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from ruslo.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from ruslo.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from ruslo.protocol.messages.offset_commit_value import OffsetCommitValue
from ruslo.protocol.messages.transaction_log_key import TransactionLogKey
from tests.support.groups.group_bench import GroupBench, Logged
from tests.support.groups.offset_calls import fetch


def logged(record: GroupRecord) -> Logged:
    value = record.value
    encoded = None if value is None else GROUP_RECORDS.encode_value(value, record.version)
    return Logged(GROUP_RECORDS.encode_key(record.key), encoded)


def loaded(*records: GroupRecord) -> GroupBench:
    bench = GroupBench()
    bench.reload([logged(record) for record in records])
    return bench


def offset(value: int, partition: int = 0) -> GroupRecord:
    return offset_record("g", "orders", partition, offset=value, leader_epoch=3, metadata="", commit_ms=1)


def classic_group(version: int, *, protocol_type: str = "consumer") -> GroupRecord:
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=10_000,
        rebalance_timeout=30_000,
        subscription=b"sub",
        assignment=b"ass",
    )
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=4, protocol="range", leader="m", members=[member]
    )
    return GroupRecord(GroupMetadataKey(group="g"), value, version)


@pytest.mark.parametrize("version", range(5))
def test_classic_groups_of_every_version(version: int) -> None:
    group = loaded(classic_group(version)).shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state_name, group.generation, group.protocol, group.leader) == ("Stable", 4, "range", "m")
    member = group.members["m"]
    assert (member.protocols, member.assignment) == ((("range", b"sub"),), b"ass")
    assert member.rebalance_timeout_ms == (30_000 if version >= 1 else 10_000)


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_every_version(version: int) -> None:
    value = OffsetCommitValue(offset=9, metadata="note", commit_timestamp=1)
    key = OffsetCommitKey(group="g", topic="orders", partition=0)
    assert fetch(loaded(GroupRecord(key, value, version))) == 9


def test_oldest_version_of_offsets() -> None:
    key = LegacyOffsetCommitKey(group="g", topic="orders", partition=0)
    value = LegacyOffsetCommitValue(offset=9, metadata="", commit_timestamp=1)
    assert fetch(loaded(GroupRecord(key, value, 0))) == 9
    assert fetch(loaded(GroupRecord(key, value, 0), GroupRecord(key, None))) == -1


def test_last_record_of_a_key_wins() -> None:
    bench = loaded(offset(1), offset(2), offset(5, partition=1), offset_tombstone("g", "orders", 1))
    assert (fetch(bench), fetch(bench, partition=1)) == (2, -1)


def test_tombstones_of_unknown_keys_are_ignored() -> None:
    bench = loaded(classic_group_tombstone("never"), offset_tombstone("never", "orders", 0))
    assert bench.shard.state.groups == {}


def test_group_and_its_tombstone() -> None:
    assert loaded(classic_group(3), classic_group_tombstone("g")).shard.state.groups == {}


def test_records_of_other_group_types_are_skipped() -> None:
    bench = loaded(offset(4))
    bench.shard.replay(GroupRecord(TransactionLogKey(transactional_id="s"), None), 1)
    assert bench.shard.state.groups.keys() == {"g"}
    assert bench.shard.state.next_offset == 2


def test_leader_that_is_not_a_member_is_replaced() -> None:
    record = classic_group(3)
    assert isinstance(record.value, GroupMetadataValue)
    record.value.leader = "gone"
    group = loaded(record).shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.leader == "m"
