"""SyncGroup: the leader's assignment, and every error on the way to it."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse
from tests.support.groups.classic_client import REBALANCE_MS, ClassicClient, stable_group, subscription
from tests.support.groups.group_bench import GroupBench
from tests.support.machines.coordinator_bench import WALL_MS


def two_joined_members(bench: GroupBench) -> tuple[ClassicClient, ClassicClient]:
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    a.join()
    b.join()
    bench.advance(6_000)
    a.joined()
    b.joined()
    return a, b


def test_followers_wait_for_the_leader_and_the_group_is_written() -> None:
    bench = GroupBench()
    a, b = two_joined_members(bench)
    assert b.sync() is None
    assert a.sync({a.member_id: b"first", b.member_id: b"second"}) == b"first"
    assert b.synced() == b"second"

    written = bench.records()[-1]
    assert written.version == 3
    assert written.value == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=a.member_id,
        current_state_timestamp=WALL_MS + 6_000,
        members=[
            MemberMetadata(
                member_id=client.member_id,
                client_id=client.name,
                client_host="/10.0.0.1",
                rebalance_timeout=REBALANCE_MS,
                session_timeout=10_000,
                subscription=subscription(["orders"]),
                assignment=assignment,
            )
            for client, assignment in ((a, b"first"), (b, b"second"))
        ],
    )


def test_late_follower_gets_the_stored_bytes() -> None:
    bench = GroupBench()
    a, b = two_joined_members(bench)
    a.sync({b.member_id: b"yours"})
    assert b.sync() == b"yours"
    assert b.sync() == b"yours"


def test_member_without_an_assignment_gets_an_empty_one() -> None:
    bench = GroupBench()
    a, b = two_joined_members(bench)
    a.sync({a.member_id: b"all mine", "unknown": b"?"})
    assert b.sync() == b""


def test_sync_names_its_protocol() -> None:
    bench = GroupBench()
    a, _ = two_joined_members(bench)
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=a.member_id, protocol_type="consumer", protocol_name=None
    )
    code = bench.call(request, SyncGroupResponse, 5).error_code
    assert code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request.protocol_name = "sticky"
    code = bench.call(request, SyncGroupResponse, 5).error_code
    assert code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request.protocol_name, request.protocol_type = "range", "connect"
    code = bench.call(request, SyncGroupResponse, 5).error_code
    assert code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.call(request, SyncGroupResponse, 4).error_code == ErrorCode.NONE, (
        "older versions carry no protocol"
    )


def test_invalid_syncs() -> None:
    bench = GroupBench()
    a, b = two_joined_members(bench)
    generation, a.generation = a.generation, 7
    assert a.sync({}) is ErrorCode.ILLEGAL_GENERATION
    a.generation = generation
    unknown = ClassicClient(bench, "x")
    unknown.member_id, unknown.generation, unknown.protocol = "stranger", 1, "range"
    assert unknown.sync() is ErrorCode.UNKNOWN_MEMBER_ID
    b.instance = "never-seen"
    assert b.sync() is ErrorCode.UNKNOWN_MEMBER_ID
    lost = ClassicClient(bench, "x", group="no-such-group")
    lost.protocol = "range"
    assert lost.sync() is ErrorCode.UNKNOWN_MEMBER_ID
    lost.group = ""
    assert lost.sync() is ErrorCode.INVALID_GROUP_ID


def test_sync_during_the_next_rebalance_is_rejected() -> None:
    bench = GroupBench()
    a, b = two_joined_members(bench)
    assert b.sync() is None
    ClassicClient(bench, "c").join()
    assert b.synced() is ErrorCode.REBALANCE_IN_PROGRESS, "the awaited assignment will not come"
    assert a.sync({}) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("instance", [None, "static"])
def test_member_that_never_syncs_is_removed(instance: str | None) -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a", session_ms=100_000)
    without_sync = ClassicClient(bench, "lazy", session_ms=100_000, instance=instance)
    a.join()
    without_sync.join()
    bench.advance(6_000)
    a.joined()
    without_sync.joined()
    a.sync({})
    bench.advance(REBALANCE_MS - 1)
    assert without_sync.heartbeat() is ErrorCode.NONE
    bench.advance(1)
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert without_sync.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    response = a.join()
    assert response is not None
    assert [each.member_id for each in response.members] == [a.member_id]


def test_leader_that_never_syncs_is_removed_and_waiting_members_rejoin() -> None:
    bench = GroupBench()
    a, b = two_joined_members(bench)
    assert b.sync() is None
    for _ in range(3):
        bench.advance(9_000)
        assert a.heartbeat() is ErrorCode.NONE, "the leader sends heartbeats but no assignment"
    assert b.waits, "the session of a parked member does not expire"
    bench.advance(3_000)
    assert b.synced() is ErrorCode.REBALANCE_IN_PROGRESS
    response = b.join()
    assert response is not None
    assert response.leader == b.member_id


def test_member_whose_session_timer_fired_while_parked_gets_a_new_session() -> None:
    bench = GroupBench()
    leader = ClassicClient(bench, "leader", session_ms=60_000)
    waiting = ClassicClient(bench, "waiting", instance="i-w", session_ms=6_000)
    leader.join()
    waiting.join()
    bench.advance(6_000)
    leader.joined()
    waiting.joined()
    assert waiting.sync() is None
    bench.advance(20_000)
    ClassicClient(bench, "newcomer").join()
    assert waiting.synced() is ErrorCode.REBALANCE_IN_PROGRESS
    bench.advance(6_000)
    assert waiting.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "a static member that never returned"


def test_repeated_sync_fails_the_earlier_request() -> None:
    bench = GroupBench()
    a, b = two_joined_members(bench)
    b.sync()
    forgotten = b.token
    assert b.sync() is None
    assert bench.response(forgotten, SyncGroupResponse).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    a.sync({b.member_id: b"x"})
    assert b.synced() == b"x"


@pytest.mark.parametrize("failure", ["append", "commit"])
def test_assignment_that_failed_to_append_starts_another_rebalance(failure: str) -> None:
    bench = GroupBench()
    a, b = two_joined_members(bench)
    assert b.sync() is None
    if failure == "append":
        bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    else:
        bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
    assert a.sync({a.member_id: b"lost"}) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert b.synced() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert b.join() is None
    assert a.join() is not None
    assert b.joined().generation_id == 2
    assert a.sync({b.member_id: b"again"}) == b""
    assert b.sync() == b"again"


def test_stable_group_with_a_new_member_takes_two_plain_rebalances() -> None:
    """Cooperative clients revoke in the first rebalance and assign in the second; the broker is unaware."""
    bench = GroupBench()
    a = ClassicClient(bench, "a", protocols={"cooperative-sticky": b"owns 0-3"})
    stable_group(bench, a)
    b = ClassicClient(bench, "b", protocols={"cooperative-sticky": b""})
    b.join()
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.commit(5) is ErrorCode.NONE, "members keep reading and committing in between"
    a.join()
    b.joined()
    a.sync({a.member_id: b"0-1", b.member_id: b""})
    assert b.sync() == b""
    a.protocols = {"cooperative-sticky": b"owns 0-1"}
    assert a.join() is None
    assert b.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert b.join() is not None
    assert a.joined().generation_id == 3
    a.sync({a.member_id: b"0-1", b.member_id: b"2-3"})
    assert b.sync() == b"2-3"
