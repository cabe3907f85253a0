"""ShareGroupHeartbeat: joining, initialized partitions that members get, and every error."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from tests.support.groups.classic_client import ClassicClient
from tests.support.groups.consumer_transcript import Consumer
from tests.support.groups.group_bench import GroupBench, Topics
from tests.support.groups.share_transcript import ShareConsumer, ShareTranscript


def started(transcript: ShareTranscript, *member_ids: str) -> list[ShareConsumer]:
    """Members of orders that have got their partitions; the transcript is empty."""
    members = [ShareConsumer(transcript, member_id, "orders") for member_id in member_ids]
    for member in members:
        member.join()
    transcript.answer()
    for _ in range(2):
        transcript.wait(1_000)
        for member in members:
            member.heartbeat()
    transcript.lines.clear()
    return members


def test_members_get_partitions_after_their_states_are_initialized() -> None:
    transcript = ShareTranscript()
    a = ShareConsumer(transcript, "a", "orders")
    a.join()
    a.heartbeat()
    transcript.answer()
    transcript.wait(1_000)
    a.heartbeat()
    a.heartbeat()
    assert transcript.text == (
        """\
> a joins orders
10 a orders
11 epoch 2
13 a
12 epoch 2
14 a epoch 2 ← 0
15 initializing orders:0,1,2,3
initialize orders:0,1,2,3 at 2
a at 2 has nothing
> a sends a heartbeat
a at 2
> the share coordinator responds
15 initialized orders:0,1,2,3
> 1 s pass
> a sends a heartbeat
11 epoch 3
13 a orders:0,1,2,3
12 epoch 3
14 a epoch 3 ← 2 orders:0,1,2,3
a at 3 has orders:0,1,2,3
> a sends a heartbeat
a at 3
"""
    )


def test_a_second_member_gets_its_part_at_once_and_the_first_one_with_its_heartbeat() -> None:
    transcript = ShareTranscript()
    (a,) = started(transcript, "a")
    b = ShareConsumer(transcript, "b", "orders")
    b.join()
    a.heartbeat()
    assert transcript.text == (
        """\
> b joins orders
10 b orders
11 epoch 4
13 a orders:0,1
13 b orders:2,3
12 epoch 4
14 b epoch 4 ← 0 orders:2,3
b at 4 has orders:2,3
> a sends a heartbeat
14 a epoch 4 ← 3 orders:0,1
a at 4 has orders:0,1
"""
    )


def test_members_beyond_the_partitions_share_them() -> None:
    transcript = ShareTranscript(GroupBench(topics=Topics({"orders": 2})))
    members = started(transcript, "a", "b", "c")
    (orders,) = members[0].owned
    assert [member.owned[orders] for member in members] == [[0, 1], [0], [1]]


def test_a_member_that_leaves_leaves_its_partitions_to_the_others() -> None:
    transcript = ShareTranscript()
    a, b = started(transcript, "a", "b")
    b.leave()
    transcript.wait(1_000)
    a.heartbeat()
    a.leave()
    assert transcript.text == (
        """\
> b leaves
x14 b
x13 b
x10 b
11 epoch 4
b at -1
> 1 s pass
> a sends a heartbeat
13 a orders:0,1,2,3
12 epoch 4
14 a epoch 4 ← 3 orders:0,1,2,3
a at 4 has orders:0,1,2,3
> a leaves
x14 a
x13 a
x10 a
11 epoch 5
a at -1
"""
    )


def test_a_member_without_heartbeats_is_removed_after_the_session_timeout() -> None:
    transcript = ShareTranscript()
    a, _ = started(transcript, "a", "b")
    transcript.wait(30_000)
    a.heartbeat()
    transcript.wait(15_000)
    assert transcript.text == (
        """\
> 30 s pass
> a sends a heartbeat
a at 3
> 15 s pass
x14 b
x13 b
x10 b
11 epoch 4
"""
    )


def test_a_group_may_have_its_own_timeouts() -> None:
    overrides = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "7000"}
    transcript = ShareTranscript(GroupBench(GroupSettings(group_overrides=lambda group_id: overrides)))
    a = ShareConsumer(transcript, "a", "orders")
    assert a.join().heartbeat_interval_ms == 7_000
    transcript.wait(49_999)
    assert a.heartbeat().error_code == ErrorCode.NONE
    transcript.wait(50_000)
    assert a.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("configured", "used"), [("1", 5_000), ("99999", 15_000)])
def test_limits_of_the_broker_bound_the_timeouts_of_a_group(configured: str, used: int) -> None:
    overrides = {"share.heartbeat.interval.ms": configured}
    transcript = ShareTranscript(GroupBench(GroupSettings(group_overrides=lambda group_id: overrides)))
    assert ShareConsumer(transcript, "a", "orders").join().heartbeat_interval_ms == used


def test_sessions_start_again_when_the_coordinator_moves() -> None:
    transcript = ShareTranscript()
    a, b = started(transcript, "a", "b")
    transcript.wait(40_000)
    transcript.reload()
    transcript.wait(44_999)
    a.heartbeat()
    transcript.wait(1)
    b.heartbeat()
    assert transcript.text == (
        """\
> 40 s pass
> the coordinator moves
> 44.999 s pass
> a sends a heartbeat
a at 3
> 0.001 s pass
x14 b
x13 b
x10 b
11 epoch 4
> b sends a heartbeat
b: UNKNOWN_MEMBER_ID
"""
    )


def test_a_changed_subscription_takes_partitions_away_at_once() -> None:
    transcript = ShareTranscript()
    a = ShareConsumer(transcript, "a", "orders", "parcels")
    a.join()
    transcript.answer()
    transcript.wait(1_000)
    a.heartbeat()
    transcript.lines.clear()
    a.subscribe("parcels")
    transcript.wait(1_000)
    a.heartbeat()
    assert transcript.text == (
        """\
> a subscribes to parcels
10 a parcels
11 epoch 4
14 a epoch 3 ← 2 parcels:0,1
a at 3 has parcels:0,1
> 1 s pass
> a sends a heartbeat
13 a parcels:0,1
12 epoch 4
14 a epoch 4 ← 3 parcels:0,1
a at 4
"""
    )


def test_a_member_may_subscribe_to_nothing() -> None:
    transcript = ShareTranscript()
    (a,) = started(transcript, "a")
    a.send("subscribes to nothing", [])
    assert transcript.lines == [
        "> a subscribes to nothing",
        "10 a ",
        "11 epoch 4",
        "13 a",
        "12 epoch 4",
        "14 a epoch 4 ← 3",
        "a at 4 has nothing",
    ]


def test_a_member_that_lost_a_response_may_use_its_previous_epoch() -> None:
    transcript = ShareTranscript()
    a, b = started(transcript, "a", "b")
    b.leave()
    transcript.wait(1_000)
    a.heartbeat()
    a.epoch = 3
    assert a.heartbeat().member_epoch == 4
    a.epoch = 2
    assert a.heartbeat().error_code == ErrorCode.FENCED_MEMBER_EPOCH
    a.epoch = 5
    assert a.heartbeat().error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_rejoins_with_its_id() -> None:
    transcript = ShareTranscript()
    (a,) = started(transcript, "a")
    a.join()
    assert transcript.text == (
        """\
> a joins orders
a at 3 has orders:0,1,2,3
"""
    )


def test_a_full_group_rejects_new_members_only() -> None:
    transcript = ShareTranscript(GroupBench(GroupSettings(share_max_size=1)))
    (a,) = started(transcript, "a")
    b = ShareConsumer(transcript, "b", "orders")
    assert b.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert a.heartbeat().error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "request_",
    [
        ShareGroupHeartbeatRequest(group_id="g", member_id="", subscribed_topic_names=["orders"]),
        ShareGroupHeartbeatRequest(group_id="g", member_id="m" * 37, subscribed_topic_names=["orders"]),
        ShareGroupHeartbeatRequest(group_id="", member_id="a", subscribed_topic_names=["orders"]),
        ShareGroupHeartbeatRequest(
            group_id="g", member_id="a", rack_id="", subscribed_topic_names=["orders"]
        ),
        ShareGroupHeartbeatRequest(group_id="g", member_id="a"),
        ShareGroupHeartbeatRequest(group_id="g", member_id="a", subscribed_topic_names=[]),
        ShareGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=-2),
    ],
)
def test_invalid_requests_change_nothing(request_: ShareGroupHeartbeatRequest) -> None:
    bench = GroupBench()
    response = bench.call(request_, ShareGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message
    assert bench.log == []


@pytest.mark.parametrize("epoch", [-1, 5])
def test_an_absent_group_is_created_by_joining_only(epoch: int) -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
    response = GroupBench().call(request, ShareGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [-1, 5])
def test_a_stranger_must_join_first(epoch: int) -> None:
    transcript = ShareTranscript()
    started(transcript, "a")
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="b", member_epoch=epoch)
    response = transcript.bench.call(request, ShareGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_share_members_cannot_join_groups_of_other_types() -> None:
    transcript = ShareTranscript()
    Consumer(transcript, "c", "orders").join()
    assert ShareConsumer(transcript, "a", "orders").join().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    transcript.group = "classic"
    ClassicClient(transcript.bench, "c", group="classic").join()
    assert ShareConsumer(transcript, "a", "orders").join().error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("is_empty", [False, True])
def test_other_members_cannot_join_share_groups(is_empty: bool) -> None:
    transcript = ShareTranscript()
    (a,) = started(transcript, "a")
    if is_empty:
        a.leave()
    assert Consumer(transcript, "c", "orders").join().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    response = ClassicClient(transcript.bench, "c", group="g").join()
    assert response is not None
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_heartbeat_whose_records_fail_changes_nothing() -> None:
    transcript = ShareTranscript()
    started(transcript, "a")
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    b = ShareConsumer(transcript, "b", "parcels")
    assert b.join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert transcript.bench.queries == []
    b.join()
    assert len(transcript.bench.queries) == 1
