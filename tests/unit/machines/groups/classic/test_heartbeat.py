"""Heartbeats and the session that they renew."""

from __future__ import annotations

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue
from tests.support.groups.classic_client import ClassicClient, stable_group
from tests.support.groups.group_bench import GroupBench


def test_invalid_heartbeats() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    assert a.heartbeat() is ErrorCode.NONE
    a.generation = 2
    assert a.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    a.member_id = "unknown"
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert ClassicClient(bench, "b", group="absent").heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert ClassicClient(bench, "b", group="").heartbeat() is ErrorCode.INVALID_GROUP_ID


def test_heartbeats_before_the_assignment_are_accepted() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    a.join()
    bench.advance(3_000)
    a.joined()
    assert a.heartbeat() is ErrorCode.NONE


def test_session_expires_to_the_millisecond_and_the_others_rebalance() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b", session_ms=6_000)
    stable_group(bench, a, b)
    bench.advance(3_000)
    b.heartbeat()
    a.heartbeat()
    bench.advance(5_999)
    assert a.heartbeat() is ErrorCode.NONE
    bench.advance(1)
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_renew_the_session_during_a_rebalance() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a)
    b.join()
    for _ in range(3):
        bench.advance(9_000)
        assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert b.waits
    bench.advance(3_000)
    assert b.joined().generation_id == 2, "the rebalance timeout of the members is thirty seconds"
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "the member sent heartbeats but did not rejoin"


def test_commit_renews_the_session_too() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    for offset in range(5):
        bench.advance(9_000)
        assert a.commit(offset) is ErrorCode.NONE
    assert a.heartbeat() is ErrorCode.NONE


def test_last_expired_session_leaves_an_empty_group_in_the_log() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    bench.advance(10_000)
    value = bench.records()[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.generation) == ("consumer", 2)
    assert (value.protocol, value.leader, value.members) == (None, None, [])
    assert value.current_state_timestamp == bench.wall_ms
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
