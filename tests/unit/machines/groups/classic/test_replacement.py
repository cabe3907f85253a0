"""Static members (KIP-345): they may leave and rejoin without a rebalance."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue
from ruslo.protocol.messages.join_group_response import JoinGroupResponse
from tests.support.groups.classic_client import REBALANCE_MS, ClassicClient, stable_group, subscription
from tests.support.groups.group_bench import GroupBench


def static(
    bench: GroupBench, name: str, *, topics: tuple[str, ...] = ("orders",), join_version: int = 9
) -> ClassicClient:
    return ClassicClient(bench, name, instance=f"i-{name}", topics=topics, join_version=join_version)


def test_static_member_joins_with_one_request() -> None:
    bench = GroupBench()
    a = static(bench, "a")
    assert a.join_once() is None
    bench.advance(3_000)
    assert a.joined().member_id == "i-a-00000000-0000-0000-0000-000000000001"


def test_restarted_follower_gets_its_old_assignment_without_a_rebalance() -> None:
    bench = GroupBench()
    a, b = static(bench, "a"), static(bench, "b")
    stable_group(bench, a, b)
    written = len(bench.log)
    again = static(bench, "b", topics=("parcels",))
    response = again.join()
    assert response is not None
    assert response.generation_id == 1
    assert response.leader == a.member_id
    assert response.member_id != b.member_id
    assert again.sync() == b"b"
    assert a.heartbeat() is ErrorCode.NONE
    assert b.heartbeat() is ErrorCode.FENCED_INSTANCE_ID

    record = bench.records(written)[-1].value
    assert isinstance(record, GroupMetadataValue)
    members = {member.member_id: member for member in record.members}
    assert members.keys() == {a.member_id, again.member_id}
    assert members[again.member_id].assignment == b"b"
    assert members[again.member_id].subscription == subscription(["parcels"])


def test_restarted_leader_skips_the_assignment() -> None:
    bench = GroupBench()
    a, b = static(bench, "a"), static(bench, "b")
    stable_group(bench, a, b)
    response = static(bench, "a").join()
    assert response is not None
    assert response.skip_assignment
    assert response.leader == response.member_id
    assert {each.member_id for each in response.members} == {response.member_id, b.member_id}


def test_restarted_leader_of_an_old_version_gets_the_old_leader_id() -> None:
    bench = GroupBench()
    a, b = static(bench, "a"), static(bench, "b")
    stable_group(bench, a, b)
    again = static(bench, "a", join_version=8)
    response = again.join()
    assert response is not None
    assert response.leader == a.member_id != again.member_id
    assert response.members == []
    assert again.sync() == b"a"
    assert again.join() is None, "the member leads anyway, and its rejoin starts a rebalance"


def test_restart_that_changes_the_selected_protocol_rebalances() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a", instance="i-a", protocols={"range": b"", "sticky": b""})
    stable_group(bench, a)
    again = ClassicClient(bench, "a", instance="i-a", protocols={"sticky": b"", "range": b""})
    response = again.join()
    assert response is not None
    assert response.generation_id == 2
    assert response.protocol_name == "sticky"


def test_restart_while_the_leader_assigns_rebalances() -> None:
    bench = GroupBench()
    a, b = static(bench, "a"), static(bench, "b")
    a.join()
    b.join()
    bench.advance(6_000)
    a.joined()
    b.joined()
    assert b.sync() is None
    again = static(bench, "b")
    assert again.join() is None
    assert b.synced() is ErrorCode.FENCED_INSTANCE_ID
    assert a.sync({}) is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.join() is not None
    assert again.joined().generation_id == 2


def test_parked_join_of_the_old_holder_is_fenced() -> None:
    bench = GroupBench()
    a = static(bench, "a")
    a.join()
    again = static(bench, "a")
    assert again.join() is None
    assert bench.response(a.token, JoinGroupResponse).error_code == ErrorCode.FENCED_INSTANCE_ID
    bench.advance(3_000)
    assert [each.group_instance_id for each in again.joined().members] == ["i-a"]


def test_old_holder_is_fenced_in_every_request() -> None:
    bench = GroupBench()
    a = static(bench, "a")
    stable_group(bench, a)
    static(bench, "a").join()
    rejoin = a.join_once()
    assert rejoin is not None
    assert rejoin.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert a.sync() is ErrorCode.FENCED_INSTANCE_ID
    assert a.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert a.commit(1) is ErrorCode.FENCED_INSTANCE_ID
    assert a.leave() is ErrorCode.FENCED_INSTANCE_ID


def test_silent_static_member_stays_through_a_rebalance() -> None:
    bench = GroupBench()
    a, silent = static(bench, "a"), static(bench, "silent")
    silent.session_ms = 120_000
    stable_group(bench, a, silent)
    b = ClassicClient(bench, "b")
    b.join()
    assert a.join() is None
    bench.advance(REBALANCE_MS)
    assert {each.member_id for each in a.joined().members} == {a.member_id, silent.member_id, b.member_id}
    assert b.joined().generation_id == 2


def test_absent_leader_is_replaced_by_a_member_that_rejoined() -> None:
    bench = GroupBench()
    leader, b = static(bench, "leader"), static(bench, "b")
    leader.session_ms = 120_000
    stable_group(bench, leader, b)
    b.protocols = {"range": b"changed"}
    assert b.join() is None
    bench.advance(REBALANCE_MS)
    response = b.joined()
    assert response.leader == b.member_id
    assert len(response.members) == 2


def test_silent_static_members_are_awaited_until_their_sessions_expire() -> None:
    bench = GroupBench()
    a, b = static(bench, "a"), ClassicClient(bench, "b")
    a.session_ms = 200_000
    stable_group(bench, a, b)
    b.leave()
    bench.advance(3 * REBALANCE_MS)
    assert bench.shard.state.groups["g"].state_name == "PreparingRebalance"
    assert a.join() is not None, "it has rejoined, and no other member is missing"
    assert a.generation == 2


def test_static_session_expires_like_any_other() -> None:
    bench = GroupBench()
    a, b = static(bench, "a"), static(bench, "b")
    stable_group(bench, a, b)
    bench.advance(6_000)
    a.heartbeat()
    bench.advance(4_000)
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    response = a.join()
    assert response is not None
    assert len(response.members) == 1


@pytest.mark.parametrize("failure", ["append", "commit"])
def test_restart_that_failed_to_append_keeps_the_old_member(failure: str) -> None:
    bench = GroupBench()
    a, b = static(bench, "a"), static(bench, "b")
    stable_group(bench, a, b)
    if failure == "append":
        bench.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        bench.commit_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = static(bench, "b", topics=("parcels",)).join()
    assert response is not None
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert b.heartbeat() is ErrorCode.NONE
    assert bench.shard.state.groups["g"].subscribes_to("orders")
    assert not bench.shard.state.groups["g"].subscribes_to("parcels")
    assert static(bench, "b").join() is not None


def test_replaced_member_still_has_to_sync() -> None:
    bench = GroupBench(GroupSettings())
    a, b = static(bench, "a"), static(bench, "b")
    a.session_ms = b.session_ms = 200_000
    a.join()
    b.join()
    bench.advance(6_000)
    a.joined()
    b.joined()
    a.sync({b.member_id: b"b"})
    again = static(bench, "b")
    again.session_ms = 200_000
    again.join()
    bench.advance(REBALANCE_MS - 1)
    assert again.heartbeat() is ErrorCode.NONE
    bench.advance(1)
    assert again.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
