"""ConsumerGroupHeartbeat: joining, the steps towards the target assignment, and every error."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from tests.support.groups.classic_client import ClassicClient
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import GroupBench, Topics, topic_id


def test_first_member_gets_all_partitions_at_epoch_two() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", "parcels")
    a.join()
    a.report_owned()
    a.heartbeat()
    assert transcript.text == (
        """\
> a joins orders parcels
5 a orders,parcels
3 epoch 2
7 a orders:0,1,2,3 parcels:0,1
6 epoch 2
8 a epoch 2 ← 0 stable orders:0@2,1@2,2@2,3@2 parcels:0@2,1@2
a at 2 has orders:0,1,2,3 parcels:0,1
> a reports its partitions
a at 2
> a sends a heartbeat
a at 2
"""
    )


def test_second_member_waits_until_the_first_has_revoked() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    transcript.wait(1_000)
    b.join()
    a.heartbeat()
    a.heartbeat("sends a heartbeat while it processes records")
    b.heartbeat()
    a.report_owned("reports the revocation")
    b.heartbeat()
    b.report_owned()
    assert transcript.text == (
        """\
> a joins orders
5 a orders
3 epoch 2
7 a orders:0,1,2,3
6 epoch 2
8 a epoch 2 ← 0 stable orders:0@2,1@2,2@2,3@2
a at 2 has orders:0,1,2,3
> 1 s pass
> b joins orders
5 b orders
3 epoch 3
7 a orders:0,1
7 b orders:2,3
6 epoch 3
8 b epoch 3 ← 0 unreleased
b at 3 has nothing
> a sends a heartbeat
8 a epoch 2 ← 2 unrevoked orders:0@2,1@2 revoke orders:2@2,3@2
a at 2 has orders:0,1
> a sends a heartbeat while it processes records
a at 2
> b sends a heartbeat
8 b epoch 3 ← 3 unreleased
b at 3
> a reports the revocation
8 a epoch 3 ← 2 stable orders:0@2,1@2
a at 3
> b sends a heartbeat
8 b epoch 3 ← 3 stable orders:2@3,3@3
b at 3 has orders:2,3
> b reports its partitions
b at 3
"""
    )


def test_targets_are_an_interval_apart() -> None:
    """Of two members that join in the same second, the second one waits for the next target assignment."""
    transcript = Transcript()
    Consumer(transcript, "a", "orders").join()
    b = Consumer(transcript, "b", "orders")
    b.join()
    b.heartbeat()
    transcript.wait(1_000)
    b.heartbeat()
    assert transcript.text == (
        """\
> a joins orders
5 a orders
3 epoch 2
7 a orders:0,1,2,3
6 epoch 2
8 a epoch 2 ← 0 stable orders:0@2,1@2,2@2,3@2
a at 2 has orders:0,1,2,3
> b joins orders
5 b orders
3 epoch 3
8 b epoch 2 ← 0 stable
b at 2 has nothing
> b sends a heartbeat
b at 2
> 1 s pass
> b sends a heartbeat
7 a orders:0,1
7 b orders:2,3
6 epoch 3
8 b epoch 3 ← 2 unreleased
b at 3
"""
    )


def test_group_may_have_its_own_assignment_interval() -> None:
    settings = GroupSettings(group_overrides=lambda group_id: {"consumer.assignment.interval.ms": "0"})
    transcript = Transcript(GroupBench(settings))
    Consumer(transcript, "a", "orders").join()
    b = Consumer(transcript, "b", "orders")
    b.join()
    assert b.epoch == 3


def test_partitions_of_a_leaving_member_go_to_the_others() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    b.join()
    transcript.wait(1_000)
    transcript.lines.clear()
    b.leave()
    a.heartbeat()
    a.leave()
    assert transcript.text == (
        """\
> b leaves
x8 b
x7 b
x5 b
3 epoch 4
b at -1
> a sends a heartbeat
6 epoch 4
8 a epoch 4 ← 2 stable orders:0@2,1@2,2@2,3@2
a at 4
> a leaves
x8 a
x7 a
x5 a
3 epoch 5
a at -1
"""
    )
    assert transcript.bench.shard.state.groups["g"].state_name == "Empty"


def test_member_that_missed_a_response_is_not_fenced() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    transcript.wait(1_000)
    b.join()
    a.heartbeat()
    a.report_owned("reports the revocation")
    transcript.lines.clear()

    a.epoch = 2
    a.report_owned("missed epoch 3")
    a.epoch = 2
    a.heartbeat("missed the response and reports no partitions")
    a.epoch = 2
    a.owned = {topic_id(1_000): [0, 1, 2]}
    a.report_owned("reports more than it was assigned")
    a.epoch = 4
    a.heartbeat("sends a future epoch")
    a.join("drops all partitions and joins")
    assert transcript.text == (
        """\
> a missed epoch 3
a at 3
> a missed the response and reports no partitions
a: FENCED_MEMBER_EPOCH
> a reports more than it was assigned
a: FENCED_MEMBER_EPOCH
> a sends a future epoch
a: FENCED_MEMBER_EPOCH
> a drops all partitions and joins orders
a at 3 has orders:0,1
"""
    )


def test_full_request_gets_the_whole_assignment() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders")
    a.join()
    response = a.send(
        "repeats everything",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=a.held(),
    )
    assert response.assignment is not None
    assert transcript.lines[-2:] == ["> a repeats everything", "a at 2 has orders:0,1,2,3"]


def test_null_fields_keep_their_values() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", rack_id="r1", assignor="range")
    a.join()
    a.send("gets another timeout", rebalance_timeout_ms=1_000)
    group = transcript.bench.shard.state.groups["g"]
    assert transcript.lines[-2:] == ["5 a orders", "a at 2"]
    value = transcript.bench.records()[-1].value
    assert value is not None
    assert "rack_id='r1'" in repr(value)
    assert "server_assignor='range'" in repr(value)
    assert "rebalance_timeout_ms=1000" in repr(value)
    assert group.subscribes_to("orders")


def test_new_subscription_revokes_topics_at_once() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", "parcels")
    a.join()
    transcript.lines.clear()
    a.subscribe("parcels")
    a.report_owned("reports the revocation")
    transcript.wait(1_000)
    a.heartbeat()
    assert transcript.text == (
        """\
> a subscribes to parcels
5 a parcels
3 epoch 3
8 a epoch 2 ← 2 unrevoked parcels:0@2,1@2 revoke orders:0@2,1@2,2@2,3@2
a at 2 has parcels:0,1
> a reports the revocation
8 a epoch 2 ← 2 stable parcels:0@2,1@2
a at 2
> 1 s pass
> a sends a heartbeat
7 a parcels:0,1
6 epoch 3
8 a epoch 3 ← 2 stable parcels:0@2,1@2
a at 3
"""
    )


def test_member_without_topics_is_a_member() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a")
    a.join()
    assert transcript.lines == ["> a joins", "5 a", "8 a epoch 1 ← 0 stable", "a at 1 has nothing"]
    assert transcript.bench.shard.state.groups["g"].state_name == "Stable"


def test_topic_changes_apply_with_the_next_heartbeat() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", "parcels")
    a.join()
    transcript.wait(1_000)
    transcript.lines.clear()
    transcript.change_topics("orders grows", Topics({"orders": 5, "parcels": 2}, version=1))
    a.heartbeat()
    transcript.wait(1_000)
    left = Topics({"orders": 5}, version=2)
    transcript.change_topics("parcels is deleted", left, deleted=["parcels"])
    a.heartbeat()
    a.report_owned()
    a.heartbeat()
    assert transcript.text == (
        """\
> orders grows
> a sends a heartbeat
3 epoch 3
7 a orders:0,1,2,3,4 parcels:0,1
6 epoch 3
8 a epoch 3 ← 2 stable orders:0@2,1@2,2@2,3@2,4@3 parcels:0@2,1@2
a at 3 has orders:0,1,2,3,4 parcels:0,1
> 1 s pass
> parcels is deleted
> a sends a heartbeat
3 epoch 4
7 a orders:0,1,2,3,4
6 epoch 4
8 a epoch 3 ← 3 unrevoked orders:0@2,1@2,2@2,3@2,4@3 revoke (deleted):0@2,1@2
a at 3 has orders:0,1,2,3,4
> a reports its partitions
8 a epoch 4 ← 3 stable orders:0@2,1@2,2@2,3@2,4@3
a at 4
> a sends a heartbeat
a at 4
"""
    )


def test_change_of_an_unsubscribed_topic_has_no_effect() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders")
    a.join()
    transcript.change_topics("parcels grows", Topics({"orders": 4, "parcels": 9}, version=1))
    a.heartbeat()
    assert transcript.lines[-3:] == ["> parcels grows", "> a sends a heartbeat", "a at 2"]


def test_version_0_generates_member_ids() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "", "orders")
    response = a.join(version=0)
    assert response.error_code == ErrorCode.NONE
    assert a.member_id == "00000000-0000-0000-0000-000000000001"
    assert a.heartbeat().member_epoch == 2


def request(**fields: object) -> ConsumerGroupHeartbeatRequest:
    joining: dict[str, object] = {
        "group_id": "g",
        "member_id": "a",
        "rebalance_timeout_ms": 1_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**(joining | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        (
            {"topic_partitions": [TopicPartitions(topic_id=topic_id(1_000), partitions=[0])]},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "lottery"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"subscribed_topic_regex": "(unclosed"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_invalid_requests_are_rejected(fields: dict[str, object], code: ErrorCode) -> None:
    bench = GroupBench()
    response = bench.call(request(**fields), ConsumerGroupHeartbeatResponse)
    assert response.error_code == code
    assert response.error_message
    assert bench.log == []
    assert bench.shard.state.groups == {}


def test_unknown_members_and_full_groups_are_rejected() -> None:
    transcript = Transcript(GroupBench(GroupSettings(consumer_max_size=1)))
    a = Consumer(transcript, "a", "orders")
    a.join()
    unknown = Consumer(transcript, "stranger", "orders")
    unknown.epoch = 2
    unknown.heartbeat()
    unknown.join()
    a.join("joins again")
    assert transcript.lines[7:] == [
        "> stranger sends a heartbeat",
        "stranger: GROUP_MAX_SIZE_REACHED",
        "> stranger joins orders",
        "stranger: GROUP_MAX_SIZE_REACHED",
        "> a joins again orders",
        "a at 2 has orders:0,1,2,3",
    ]


def test_unknown_member() -> None:
    transcript = Transcript()
    Consumer(transcript, "a", "orders").join()
    unknown = Consumer(transcript, "stranger", "orders")
    unknown.epoch = 2
    assert unknown.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.leave().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_protocol_disabled() -> None:
    assert GroupSettings().has_consumer_groups
    assert not GroupSettings(rebalance_protocols=frozenset({"classic"})).has_consumer_groups
    assert not GroupSettings(group_version=0).has_consumer_groups


def test_empty_classic_group_is_replaced() -> None:
    bench = GroupBench()
    classic = ClassicClient(bench, "c")
    classic.join()
    bench.advance(3_000)
    classic.joined()
    classic.leave()
    transcript = Transcript(bench)
    Consumer(transcript, "a", "orders").join()
    assert transcript.lines[1:4] == ["x2", "5 a orders", "3 epoch 2"]
    assert transcript.lines[-1] == "a at 2 has orders:0,1,2,3"


def test_group_that_only_holds_offsets_is_replaced() -> None:
    bench = GroupBench()
    assert ClassicClient(bench, "c").commit(5) == ErrorCode.NONE
    transcript = Transcript(bench)
    a = Consumer(transcript, "a", "orders")
    a.join()
    assert transcript.lines[1] == "x2"
    assert a.epoch == 2
    bench.reload()
    assert bench.shard.state.groups["g"].state_name == "Stable"


def test_failed_append_changes_nothing() -> None:
    transcript = Transcript()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    a = Consumer(transcript, "a", "orders")
    assert a.join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert transcript.bench.shard.state.groups == {}
    a.join("tries again:")
    transcript.bench.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert a.leave().error_code == ErrorCode.NOT_COORDINATOR
    a.epoch = 2
    a.heartbeat()
    assert transcript.lines[-1] == "a at 2"
    transcript.wait(45_000)
    assert transcript.lines[-4:] == ["x8 a", "x7 a", "x5 a", "3 epoch 3"]


def test_member_with_another_instance_id_releases_the_first() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", instance_id="i")
    a.join()
    a.instance_id = "j"
    a.join()
    a.leave()
    b = Consumer(transcript, "b", "orders", instance_id="i")
    assert b.join().error_code == ErrorCode.NONE
