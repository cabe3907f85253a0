from __future__ import annotations

from ruslo.client.share.member import MemberState, ShareMember
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid, random_uuid
from ruslo.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = random_uuid()


def response(epoch: int, assigned: dict[Uuid, list[int]] | None = None) -> ShareGroupHeartbeatResponse:
    topics = [TopicPartitions(topic_id=tid, partitions=numbers) for tid, numbers in (assigned or {}).items()]
    return ShareGroupHeartbeatResponse(
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=None if assigned is None else Assignment(topic_partitions=topics),
    )


def joined() -> ShareMember:
    member = ShareMember("group", ["orders"], rack_id="a")
    member.heartbeat()
    member.on_response(response(1, {TOPIC: [0, 1]}))
    return member


def test_a_member_joins_with_its_rack_and_subscription() -> None:
    request = ShareMember("group", ["orders", "bills", "orders"], rack_id="a").heartbeat()
    assert (request.member_epoch, request.rack_id) == (0, "a")
    assert request.subscribed_topic_names == ["bills", "orders"]


def test_later_heartbeats_have_only_the_epoch() -> None:
    member = joined()
    request = member.heartbeat()
    assert (request.member_epoch, request.rack_id, request.subscribed_topic_names) == (1, None, None)


def test_a_join_without_a_response_is_repeated_with_the_subscription() -> None:
    member = ShareMember("group", ["orders"])
    member.heartbeat()
    assert member.on_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert member.heartbeat().subscribed_topic_names == ["orders"]


def test_a_changed_subscription_is_sent_until_a_response_arrives() -> None:
    member = joined()
    member.subscribe(["bills"])
    assert member.heartbeat().subscribed_topic_names == ["bills"]
    member.on_error(ErrorCode.NOT_COORDINATOR)
    assert member.heartbeat().subscribed_topic_names == ["bills"]
    member.on_response(response(2))
    assert member.heartbeat().subscribed_topic_names is None


def test_an_assignment_stays_until_the_next_one() -> None:
    member = joined()
    assert member.assigned == {(TOPIC, 0), (TOPIC, 1)}
    member.on_response(response(2))
    assert member.assigned == {(TOPIC, 0), (TOPIC, 1)}
    member.on_response(response(3, {TOPIC: [1]}))
    assert member.assigned == {(TOPIC, 1)}


def test_a_fenced_member_joins_again_with_its_id() -> None:
    for code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        member = joined()
        member_id = member.member_id
        assert member.on_error(code)
        request = member.heartbeat()
        assert (request.member_id, request.member_epoch) == (member_id, 0)
        assert request.subscribed_topic_names == ["orders"]
        assert not member.assigned


def test_a_member_does_not_recover_from_missing_permissions() -> None:
    assert not joined().on_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def test_a_member_without_partitions_asks_more_often_for_a_limited_time() -> None:
    member = ShareMember("group", ["orders"])
    intervals = []
    for _ in range(30):
        member.heartbeat()
        member.on_response(response(1, {}))
        intervals.append(member.interval_ms)
    assert intervals[0] < 500
    assert intervals[-1] == 5_000


def test_a_member_that_left_ignores_responses_and_may_join_again() -> None:
    member = joined()
    member.leave()
    request = member.heartbeat()
    assert (request.member_epoch, request.subscribed_topic_names) == (-1, None)
    member.on_response(response(4, {TOPIC: [0]}))
    assert (member.state, member.assigned) == (MemberState.LEFT, frozenset())
    member.subscribe(["orders"])
    assert (member.heartbeat().member_epoch, member.state) == (0, MemberState.JOINING)
