"""LeaveGroup: members that leave, and operators that remove members."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from tests.support.groups.classic_client import ClassicClient, stable_group
from tests.support.groups.group_bench import GroupBench


def test_leaving_starts_a_rebalance_at_once() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a, b)
    assert a.leave() is ErrorCode.NONE
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    response = b.join()
    assert response is not None
    assert response.leader == b.member_id


def test_leaving_during_a_rebalance_completes_it() -> None:
    bench = GroupBench()
    a, b, c = (ClassicClient(bench, name) for name in "abc")
    stable_group(bench, a, b)
    c.join()
    a.join()
    assert c.waits
    assert b.leave() is ErrorCode.NONE
    assert len(a.joined().members) == 2
    assert c.joined().generation_id == 2


def test_leaving_fails_the_parked_request() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    a.join()
    parked = a.token
    assert a.leave() is ErrorCode.NONE
    a.token = parked
    assert a.joined().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    bench.advance(3_000)
    assert bench.shard.state.groups["g"].is_empty


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_have_a_top_level_error(version: int) -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    request = LeaveGroupRequest(group_id="g", member_id=a.member_id)
    assert bench.call(request, LeaveGroupResponse, version).error_code == ErrorCode.NONE
    assert bench.call(request, LeaveGroupResponse, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    request.group_id = "absent"
    assert bench.call(request, LeaveGroupResponse, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    request.group_id = ""
    assert bench.call(request, LeaveGroupResponse, version).error_code == ErrorCode.INVALID_GROUP_ID


def test_several_members_each_have_an_error() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    b = ClassicClient(bench, "b", instance="i-b")
    c = ClassicClient(bench, "c", instance="i-c")
    stable_group(bench, a, b, c)
    members = [
        MemberIdentity(member_id=a.member_id),
        MemberIdentity(member_id="unknown"),
        MemberIdentity(member_id="", group_instance_id="i-b"),
        MemberIdentity(member_id="", group_instance_id="i-x"),
        MemberIdentity(member_id="", group_instance_id=None),
        MemberIdentity(member_id="wrong", group_instance_id="i-c"),
    ]
    response = bench.call(LeaveGroupRequest(group_id="g", members=members), LeaveGroupResponse)
    assert response.error_code == ErrorCode.NONE
    codes = [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert response.members == [
        MemberResponse(member_id=m.member_id, group_instance_id=m.group_instance_id, error_code=code)
        for m, code in zip(members, codes, strict=True)
    ]
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_absent_group_has_no_top_level_error() -> None:
    bench = GroupBench()
    request = LeaveGroupRequest(group_id="absent", members=[MemberIdentity(member_id="m")])
    response = bench.call(request, LeaveGroupResponse)
    assert response.error_code == ErrorCode.NONE
    assert [each.error_code for each in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_pending_member_may_leave_and_the_group_does_not_wait_for_it() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a)
    required = b.join_once()
    assert required is not None
    b.member_id = required.member_id
    assert a.join() is None
    assert b.leave() is ErrorCode.NONE
    assert a.joined().generation_id == 2


def test_failed_append_fails_the_whole_request() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    bench.append_error = ErrorCode.MESSAGE_TOO_LARGE
    identity = MemberIdentity(member_id=a.member_id)
    response = bench.call(LeaveGroupRequest(group_id="g", members=[identity]), LeaveGroupResponse)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert a.join_once() is not None
