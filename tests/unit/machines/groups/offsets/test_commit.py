"""OffsetCommit and TxnOffsetCommit: which members may commit, and what is written."""

from __future__ import annotations

from typing import Any

import pytest

from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from ruslo.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.protocol.messages.offset_commit_value import OffsetCommitValue
from tests.support.groups.classic_client import ClassicClient, stable_group
from tests.support.groups.group_bench import GroupBench, topic_id
from tests.support.groups.offset_calls import commit, commit_in_transaction, fetch
from tests.support.machines.coordinator_bench import WALL_MS


def test_commit_without_a_member_creates_a_group_of_offsets() -> None:
    bench = GroupBench()
    assert commit(bench, 42, metadata="note") is ErrorCode.NONE
    assert len(bench.log) == 1, "a simple group has no group record"
    (record,) = bench.records()
    assert record.key == OffsetCommitKey(group="g", topic="orders", partition=0)
    assert record.version == 4
    assert record.value == OffsetCommitValue(
        offset=42,
        leader_epoch=-1,
        metadata="note",
        commit_timestamp=WALL_MS,
        topic_id=bench.topics.id_of("orders"),
    )
    group = bench.shard.state.groups["g"]
    assert (group.state_name, group.protocol_type, group.kind) == ("Empty", "", "classic")
    assert fetch(bench) == 42


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_commits(version: int) -> None:
    bench = GroupBench()
    assert commit(bench, 7, version=version) is ErrorCode.NONE
    assert fetch(bench) == 7
    value = bench.records()[0].value
    assert isinstance(value, OffsetCommitValue)
    assert value.topic_id == bench.topics.id_of("orders")


def test_empty_group_id_works() -> None:
    bench = GroupBench()
    assert commit(bench, 1, group="") is ErrorCode.NONE
    assert fetch(bench, group="") == 1


def test_retention_of_old_clients_is_written_in_the_old_version() -> None:
    bench = GroupBench()
    assert commit(bench, 1, retention_ms=60_000, version=4) is ErrorCode.NONE
    (record,) = bench.records()
    assert record.version == 1
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.expire_timestamp == WALL_MS + 60_000


def test_unlimited_retention_fits_into_the_record() -> None:
    bench = GroupBench()
    assert commit(bench, 1, retention_ms=2**63 - 1, version=4) is ErrorCode.NONE
    (record,) = bench.records()
    assert isinstance(record.value, OffsetCommitValue)
    assert OffsetCommitValue.from_bytes(record.value.to_bytes(1), 1).expire_timestamp == 2**63 - 1
    bench.advance(365 * 24 * 3_600_000)
    assert fetch(bench) == 1


def test_unknown_topics_and_partitions_do_not_affect_the_others() -> None:
    bench = GroupBench()

    def partitions(*indexes: int) -> list[OffsetCommitRequestPartition]:
        return [OffsetCommitRequestPartition(partition_index=i, committed_offset=1) for i in indexes]

    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(name="orders", partitions=partitions(0, 4, -1)),
            OffsetCommitRequestTopic(name="absent", partitions=partitions(0)),
        ],
    )
    response = bench.call(request, OffsetCommitResponse, 9)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[each.error_code for each in topic.partitions] for topic in response.topics] == [
        [ErrorCode.NONE, unknown, unknown],
        [unknown],
    ]
    assert len(bench.log) == 1


def test_unknown_topic_id() -> None:
    bench = GroupBench()
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                topic_id=topic_id(5), partitions=[OffsetCommitRequestPartition(committed_offset=1)]
            )
        ],
    )
    response = bench.call(request, OffsetCommitResponse, 10)
    assert response.topics[0].topic_id == topic_id(5)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_metadata_is_measured_in_utf16_units() -> None:
    bench = GroupBench(GroupSettings(offset_metadata_max_chars=4))
    assert commit(bench, 1, metadata="ффф4") is ErrorCode.NONE, "seven bytes are four UTF-16 units"
    assert commit(bench, 1, metadata="😀😀") is ErrorCode.NONE
    assert commit(bench, 2, metadata="😀😀.") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(bench, 2, metadata="12345") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert fetch(bench) == 1
    assert commit(bench, 3, metadata=None) is ErrorCode.NONE
    value = bench.records()[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert value.metadata == ""


@pytest.mark.parametrize(
    ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_generation_of_an_unknown_group(version: int, code: ErrorCode) -> None:
    assert commit(GroupBench(), 1, generation=0, member="m", version=version) is code


def test_members_commit_under_their_id_and_generation() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    s = ClassicClient(bench, "s", instance="i-s")
    stable_group(bench, a, s)
    assert a.commit(1) is ErrorCode.NONE
    assert s.commit(2) is ErrorCode.NONE
    assert commit(bench, 3) is ErrorCode.UNKNOWN_MEMBER_ID, "the group is in use"
    assert commit(bench, 3, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bench, 3, member="stranger", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bench, 3, member=a.member_id, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert commit(bench, 3, member=a.member_id, generation=-1) is ErrorCode.ILLEGAL_GENERATION
    unknown_instance = commit(bench, 3, member=a.member_id, instance="i-x", generation=1)
    assert unknown_instance is ErrorCode.UNKNOWN_MEMBER_ID
    other_holder = commit(bench, 3, member=a.member_id, instance="i-s", generation=1)
    assert other_holder is ErrorCode.FENCED_INSTANCE_ID
    assert fetch(bench) == 2


def test_commits_during_a_rebalance() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a)
    b.join()
    assert a.commit(5) is ErrorCode.NONE, "members commit before they rejoin"
    a.join()
    assert a.commit(6) is ErrorCode.REBALANCE_IN_PROGRESS, "the assignment is pending"
    assert fetch(bench) == 5


def test_empty_group_accepts_only_commits_without_a_member() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    a.leave()
    assert commit(bench, 1) is ErrorCode.NONE
    assert a.commit(2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(bench) == 1


def test_failed_append_changes_nothing() -> None:
    bench = GroupBench()
    commit(bench, 1)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert commit(bench, 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetch(bench) == 1


# -- in transactions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_transactional_offset_waits_for_its_marker(version: int) -> None:
    bench = GroupBench()
    commit(bench, 1)
    assert commit_in_transaction(bench, 77, 9, version=version) is ErrorCode.NONE
    assert bench.log[-1].producer_id == 77
    assert fetch(bench) == 1
    assert fetch(bench, stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    bench.end_transaction(77, commit=True)
    assert fetch(bench, stable=True) == 9


@pytest.mark.parametrize("version", [5, 6])
def test_transactional_record_has_the_topic_id_of_its_request(version: int) -> None:
    bench = GroupBench()
    commit_in_transaction(bench, 77, 9, version=version)
    (record,) = bench.records()
    assert record.version == 4
    value = OffsetCommitValue(offset=9, leader_epoch=-1, metadata="in tx", commit_timestamp=WALL_MS)
    if version >= 6:
        value.topic_id = bench.topics.id_of("orders")
    assert record.value == value


def test_aborted_transaction_leaves_the_old_offset() -> None:
    bench = GroupBench()
    commit(bench, 1)
    commit_in_transaction(bench, 77, 9)
    bench.end_transaction(77, commit=False)
    assert fetch(bench, stable=True) == 1


def test_later_record_wins_over_the_later_marker() -> None:
    bench = GroupBench()
    commit_in_transaction(bench, 77, 9)
    commit(bench, 11)
    bench.end_transaction(77, commit=True)
    assert fetch(bench) == 11


def test_member_checks_in_transactions() -> None:
    bench = GroupBench()
    illegal = ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(bench, 7, 1, generation=3, member="m") is illegal, "no such group"
    assert commit_in_transaction(bench, 7, 1, group="") is ErrorCode.INVALID_GROUP_ID
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    assert commit_in_transaction(bench, 7, 1) is ErrorCode.NONE, "old producers send no member id"
    assert commit_in_transaction(bench, 7, 1, member="m") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(bench, 7, 1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(bench, 7, 1, member=a.member_id, generation=9) is illegal
    assert commit_in_transaction(bench, 7, 1, member=a.member_id, generation=1) is ErrorCode.NONE
    unknown = commit_in_transaction(bench, 7, 1, topic="absent")
    assert unknown is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("version", "no_group", "old_epoch", "no_topic"),
    [
        (5, ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (6, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_errors_that_producers_know_since_version_6(
    version: int, no_group: ErrorCode, old_epoch: ErrorCode, no_topic: ErrorCode
) -> None:
    bench = GroupBench()

    def committed(**changes: Any) -> ErrorCode:
        return commit_in_transaction(bench, 7, 1, version=version, **changes)

    assert committed(group="absent", generation=3, member="m") is no_group
    assert committed(topic="absent") is no_topic
    assert committed(partition=99) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    joined = bench.call(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        ),
        ConsumerGroupHeartbeatResponse,
        1,
    )
    assert committed(generation=joined.member_epoch + 1, member="m") is old_epoch
    assert committed(generation=joined.member_epoch, member="m") is ErrorCode.NONE


def test_transactions_may_commit_while_the_leader_assigns() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    a.join()
    bench.advance(3_000)
    a.joined()
    assert a.commit(1) is ErrorCode.REBALANCE_IN_PROGRESS
    code = commit_in_transaction(bench, 7, 1, member=a.member_id, generation=1)
    assert code is ErrorCode.NONE
