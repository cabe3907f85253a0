"""Which members may commit and fetch offsets of a consumer group."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ClassicPart, ConsumerMember
from ruslo.machines.groups.group import Committer
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.model.errors import ErrorCode
from tests.support.groups.group_bench import topic_id

ORDERS = topic_id(1_000)


def group_of(*members: ConsumerMember) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in members:
        group.put_member(member)
    return group


MEMBER = ConsumerMember(
    "a",
    epoch=5,
    topic_names=frozenset({"orders"}),
    assigned={ORDERS: {0: 3, 1: 5}},
    pending_revocation={ORDERS: {2: 4}},
)
CLASSIC = ConsumerMember(
    "c", epoch=5, assigned={ORDERS: {3: 3}}, classic=ClassicPart(10_000, (("range", b""),))
)


def commit(
    group: ConsumerGroup,
    epoch: int,
    *partitions: int,
    member_id: str = "a",
    api_version: int = 10,
    transactional: bool = False,
) -> ErrorCode:
    return group.check_offset_commit(
        Committer(
            member_id,
            None,
            epoch,
            api_version,
            transactional,
            lambda: ((TopicInfo("orders", ORDERS, 10), partition) for partition in partitions),
        )
    )


@pytest.mark.parametrize(
    ("epoch", "partitions", "code"),
    [
        (5, (0, 1, 2, 9), ErrorCode.NONE),
        (6, (0,), ErrorCode.STALE_MEMBER_EPOCH),
        (4, (0,), ErrorCode.NONE),
        (3, (0,), ErrorCode.NONE),
        (2, (0,), ErrorCode.STALE_MEMBER_EPOCH),
        (4, (1,), ErrorCode.STALE_MEMBER_EPOCH),
        (4, (2,), ErrorCode.NONE),
        (4, (0, 2, 1), ErrorCode.STALE_MEMBER_EPOCH),
        (4, (3,), ErrorCode.STALE_MEMBER_EPOCH),
        (-1, (0,), ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_commits_of_a_member(epoch: int, partitions: tuple[int, ...], code: ErrorCode) -> None:
    assert commit(group_of(MEMBER), epoch, *partitions) is code


def test_classic_members_get_classic_errors() -> None:
    group = group_of(MEMBER, CLASSIC)
    assert commit(group, 5, 3, member_id="c", api_version=2) is ErrorCode.NONE
    assert commit(group, 4, 3, member_id="c") is ErrorCode.NONE
    assert commit(group, 4, 0, member_id="c") is ErrorCode.ILLEGAL_GENERATION
    assert commit(group, 6, 3, member_id="c") is ErrorCode.ILLEGAL_GENERATION


def test_commits_without_a_member() -> None:
    group = group_of(MEMBER)
    assert commit(group, 5, 0, api_version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(group, 5, 0, member_id="unknown") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, -1, 0, member_id="") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group_of(), -1, 0, member_id="") is ErrorCode.NONE
    assert commit(group_of(), 0, 0, member_id="") is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_in_a_transaction() -> None:
    group = group_of(MEMBER)
    assert commit(group, -1, 0, member_id="", transactional=True) is ErrorCode.NONE
    assert commit(group, 5, 0, api_version=3, transactional=True) is ErrorCode.NONE
    assert commit(group, 9, 0, transactional=True) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(group, 5, 0, member_id="unknown", transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID


def test_fetches() -> None:
    group = group_of(MEMBER, CLASSIC)
    assert group.check_offset_fetch(None, -1) is ErrorCode.NONE
    assert group.check_offset_fetch("a", 5) is ErrorCode.NONE
    assert group.check_offset_fetch("a", 4) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.check_offset_fetch("c", 4) is ErrorCode.ILLEGAL_GENERATION
    assert group.check_offset_fetch("unknown", 5) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_offset_fetch(None, 5) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_offset_fetch("", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_without_subscribers_expire() -> None:
    group = group_of(MEMBER)
    assert group.retention_start_ms("orders", 77) is None
    assert group.retention_start_ms("parcels", 77) == 77
    assert group.check_offset_delete() is ErrorCode.NONE
