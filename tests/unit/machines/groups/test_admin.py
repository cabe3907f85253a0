"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from tests.support.groups.classic_client import ClassicClient, stable_group, subscription
from tests.support.groups.group_bench import GroupBench
from tests.support.groups.offset_calls import commit, commit_in_transaction, fetch


def describe(bench: GroupBench, group: str = "g", version: int = 6) -> DescribedGroup:
    return bench.call(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse, version).groups[0]


def listed(bench: GroupBench, states: list[str], types: list[str]) -> set[str]:
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    return {group.group_id for group in bench.call(request, ListGroupsResponse).groups}


def bench_with_groups() -> GroupBench:
    bench = GroupBench()
    commit(bench, 1, group="offsets-only")
    stable_group(bench, ClassicClient(bench, "a", group="at-work"))
    ClassicClient(bench, "b", group="forming").join()
    return bench


def test_list_shows_state_and_type() -> None:
    bench = bench_with_groups()
    response = bench.call(ListGroupsRequest(), ListGroupsResponse)
    assert sorted(response.groups, key=lambda group: group.group_id) == [
        ListedGroup(group_id="at-work", protocol_type="consumer", group_state="Stable", group_type="classic"),
        ListedGroup(
            group_id="forming",
            protocol_type="consumer",
            group_state="PreparingRebalance",
            group_type="classic",
        ),
        ListedGroup(group_id="offsets-only", protocol_type="", group_state="Empty", group_type="classic"),
    ]


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], {"offsets-only", "at-work", "forming"}),
        (["stable", "EMPTY"], [], {"offsets-only", "at-work"}),
        (["NoSuchState"], [], set()),
        ([], ["Classic"], {"offsets-only", "at-work", "forming"}),
        ([], ["consumer"], set()),
        ([], ["no-such-type"], set()),
        (["Stable"], ["classic"], {"at-work"}),
    ],
)
def test_list_filters_ignore_case(states: list[str], types: list[str], expected: set[str]) -> None:
    assert listed(bench_with_groups(), states, types) == expected


@pytest.mark.parametrize("version", range(6))
def test_list_in_every_version(version: int) -> None:
    assert len(bench_with_groups().call(ListGroupsRequest(), ListGroupsResponse, version).groups) == 3


def test_describe_a_stable_group() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a", instance="i-a")
    stable_group(bench, a)
    assert describe(bench) == DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[
            DescribedGroupMember(
                member_id=a.member_id,
                group_instance_id="i-a",
                client_id="a",
                client_host="/10.0.0.1",
                member_metadata=subscription(["orders"]),
                member_assignment=b"a",
            )
        ],
    )


def test_description_during_a_rebalance_has_no_metadata() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    a.join()
    described = describe(bench)
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert described.members == [
        DescribedGroupMember(
            member_id=a.member_id, client_id="a", client_host="/10.0.0.1", member_assignment=b"a"
        )
    ]


@pytest.mark.parametrize("version", range(7))
def test_absent_group_is_dead(version: int) -> None:
    described = describe(GroupBench(), version=version)
    assert described.group_state == "Dead"
    assert described.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert described.error_message == ("Group g not found." if version >= 6 else None)


def test_delete_removes_offsets_and_the_group() -> None:
    bench = bench_with_groups()
    commit_in_transaction(bench, 7, 5, group="offsets-only", partition=1)
    written = len(bench.log)
    names = ["offsets-only", "at-work", "absent"]
    response = bench.call(DeleteGroupsRequest(groups_names=names), DeleteGroupsResponse)
    assert [(each.group_id, each.error_code) for each in response.results] == [
        ("offsets-only", ErrorCode.NONE),
        ("at-work", ErrorCode.NON_EMPTY_GROUP),
        ("absent", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert [each.error_message for each in response.results] == [
        None,
        "Group 'at-work' has members. Stop them before you delete the group",
        "Group absent not found.",
    ]
    assert [(record.key, record.value) for record in bench.records(written)] == [
        (OffsetCommitKey(group="offsets-only", topic="orders", partition=0), None),
        (OffsetCommitKey(group="offsets-only", topic="orders", partition=1), None),
        (GroupMetadataKey(group="offsets-only"), None),
    ]
    bench.end_transaction(7, commit=True)
    assert fetch(bench, group="offsets-only", partition=1) == -1
    assert listed(bench, [], []) == {"at-work", "forming"}


def test_group_named_twice_is_deleted_once() -> None:
    bench = GroupBench()
    commit(bench, 1)
    response = bench.call(DeleteGroupsRequest(groups_names=["g", "g"]), DeleteGroupsResponse)
    assert [each.error_code for each in response.results] == [ErrorCode.NONE]
    assert len(bench.log) == 3


def test_pending_member_does_not_keep_an_empty_group() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    required = a.join_once()
    assert required is not None
    bench.call(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
    a.member_id = required.member_id
    rejected = a.join_once()
    assert rejected is not None
    assert rejected.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    bench.advance(60_000)
    assert bench.shard.state.groups == {}
