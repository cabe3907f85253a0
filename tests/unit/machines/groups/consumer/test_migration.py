"""Groups that are converted with members in them, and classic members inside a consumer group."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.consumer.embedded import read_assignment
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ruslo.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ruslo.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedPartitions
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse
from tests.support.groups.classic_client import SESSION_MS, ClassicClient
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import GroupBench

C = "c-00000000-0000-0000-0000-000000000001"
D = "d-00000000-0000-0000-0000-000000000002"


def assigned(topics: Mapping[str, list[int]], user_data: bytes | None = None) -> bytes:
    partitions = [TopicPartition(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    body = ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=user_data).to_bytes(1)
    return b"\x00\x01" + body


class Classic:
    """A cooperative client of the classic protocol that joins with its owned partitions."""

    def __init__(self, transcript: Transcript, name: str, *topics: str, instance: str | None = None) -> None:
        self.transcript = transcript
        self.topics = topics or ("orders",)
        self.client = ClassicClient(transcript.bench, name, instance=instance)
        self.owned: dict[str, list[int]] = {}

    def join(self) -> ErrorCode:
        owned = [OwnedPartitions(topic=topic, partitions=indexes) for topic, indexes in self.owned.items()]
        subscription = ConsumerProtocolSubscription(
            topics=list(self.topics), owned_partitions=owned, rack_id="r"
        )
        self.client.protocols = {"cooperative-sticky": b"\x00\x03" + subscription.to_bytes(3)}
        self.transcript.step(f"{self.client.name} joins")
        response = self.client.join()
        self.transcript.show()
        if response is None:
            return ErrorCode.NONE
        if response.error_code == ErrorCode.NONE:
            self.transcript.lines.append(f"{self.client.name} in generation {response.generation_id}")
        return ErrorCode(response.error_code)

    def sync(self) -> ErrorCode:
        self.transcript.step(f"{self.client.name} syncs")
        result = self.client.sync()
        self.transcript.show()
        if isinstance(result, ErrorCode):
            return result
        assert result is not None
        assigned_partitions = read_assignment(result).assigned_partitions
        self.owned = {topic.topic: topic.partitions for topic in assigned_partitions}
        owned = "".join(f" {topic}:{','.join(map(str, held))}" for topic, held in self.owned.items())
        self.transcript.lines.append(f"{self.client.name} has{owned or ' nothing'}")
        return ErrorCode.NONE

    def heartbeat(self) -> ErrorCode:
        return self.client.heartbeat()


def stable_classic(
    transcript: Transcript, members: Mapping[str, dict[str, list[int]]], instance: str | None = None
) -> list[Classic]:
    """A stable classic group with the given assignment."""
    clients = [Classic(transcript, name, instance=instance if name == "c" else None) for name in members]
    for each in clients:
        each.join()
    transcript.bench.advance(6_000)
    for each in clients:
        each.client.joined()
        each.owned = members[each.client.name]
    leader = next(each for each in clients if each.client.leads)
    for each in clients:
        if each is not leader:
            assert each.client.sync() is None
    leader.client.sync({each.client.member_id: assigned(each.owned) for each in clients})
    for each in clients:
        if each is not leader:
            each.client.synced()
    transcript.show()
    transcript.lines.clear()
    return clients


def test_stable_classic_group_becomes_a_consumer_group() -> None:
    transcript = Transcript()
    c, d = stable_classic(transcript, {"c": {"orders": [0, 1]}, "d": {"orders": [2, 3]}})
    a = Consumer(transcript, "a", "orders")
    a.join()
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    c.join()
    c.sync()
    assert d.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    d.join()
    d.sync()
    a.heartbeat()
    assert d.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the member has not confirmed the revocation yet"
    d.join()
    d.sync()
    a.heartbeat()
    assert (c.heartbeat(), d.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert transcript.text == (
        f"""\
> a joins orders
x2
5 {C} orders classic
5 {D} orders classic
3 epoch 1
7 {C} orders:0,1
7 {D} orders:2,3
6 epoch 1
8 {C} epoch 1 ← 1 stable orders:0@1,1@1
8 {D} epoch 1 ← 1 stable orders:2@1,3@1
5 a orders
3 epoch 2
7 {D} orders:2
7 a orders:3
6 epoch 2
8 a epoch 2 ← 0 unreleased
a at 2 has nothing
> c joins
5 {C} orders classic
8 {C} epoch 2 ← 1 stable orders:0@1,1@1
c in generation 2
> c syncs
c has orders:0,1
> d joins
5 {D} orders classic
8 {D} epoch 1 ← 1 unrevoked orders:2@1 revoke orders:3@1
d in generation 1
> d syncs
d has orders:2
> a sends a heartbeat
8 a epoch 2 ← 2 unreleased
a at 2
> d joins
5 {D} orders classic
8 {D} epoch 2 ← 1 stable orders:2@1
d in generation 2
> d syncs
d has orders:2
> a sends a heartbeat
8 a epoch 2 ← 2 stable orders:3@2
a at 2 has orders:3
"""
    )


def test_classic_member_rejoins_when_others_have_revoked() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders")
    a.join()
    transcript.bench.advance(1_000)
    c = Classic(transcript, "c")
    c.join()
    c.sync()
    assert c.heartbeat() is ErrorCode.NONE, "no partition is free yet"
    a.heartbeat()
    a.report_owned("reports the revocation")
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    c.join()
    c.sync()
    assert c.heartbeat() is ErrorCode.NONE
    assert transcript.lines[-1] == "c has orders:2,3"


def test_parked_requests_fail_with_rebalance_in_progress() -> None:
    transcript = Transcript()
    (c,) = stable_classic(transcript, {"c": {"orders": [0, 1, 2, 3]}})
    d = Classic(transcript, "d")
    d.join()
    assert d.client.waits
    Consumer(transcript, "a", "orders").join()
    assert d.client.joined().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert d.join() is ErrorCode.NONE
    assert d.client.generation == 2
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_classic_members_keep_their_sessions() -> None:
    transcript = Transcript()
    c, d = stable_classic(transcript, {"c": {"orders": [0, 1]}, "d": {"orders": [2, 3]}})
    a = Consumer(transcript, "a", "orders")
    a.join()
    transcript.bench.advance(SESSION_MS - 1)
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    transcript.lines.clear()
    transcript.show()
    transcript.lines.clear()
    transcript.wait(1)
    assert transcript.lines == ["> 0.001 s pass", f"x8 {D}", f"x7 {D}", f"x5 {D}", "3 epoch 3"]
    assert d.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_member_must_rejoin_and_sync_in_time() -> None:
    transcript = Transcript(GroupBench(GroupSettings(consumer_assignment_interval_ms=0)))
    (c,) = stable_classic(transcript, {"c": {"orders": [0, 1, 2, 3]}})
    a = Consumer(transcript, "a", "orders")
    a.join()
    for _ in range(5):
        transcript.bench.advance(6_000)
        a.heartbeat()
        c.heartbeat()
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    transcript.bench.advance(6_000)
    assert c.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "the member never rejoined"

    c.client.member_id = ""
    assert c.join() is ErrorCode.NONE
    for _ in range(5):
        transcript.bench.advance(5_999)
        a.heartbeat()
        c.heartbeat()
    transcript.bench.advance(6)
    assert c.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "the member never sent SyncGroup"


def test_group_is_downgraded_with_its_last_consumer_member() -> None:
    transcript = Transcript()
    c, d = stable_classic(transcript, {"c": {"orders": [0, 1]}, "d": {"orders": [2, 3]}})
    a = Consumer(transcript, "a", "orders")
    a.join()
    for each in (c, d, d):
        each.join()
        each.sync()
    a.heartbeat()
    transcript.lines.clear()
    a.leave()
    assert transcript.text == (
        f"""\
> a leaves
x8 {C}
x8 {D}
x8 a
x7 {C}
x7 {D}
x7 a
x6
x5 {C}
x5 {D}
x5 a
x4
x3
2 generation 2 cooperative-sticky {C},{D}
a at -1
"""
    )
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    transcript.bench.advance(0)
    assert group.state_name == "PreparingRebalance"
    assert (c.heartbeat(), d.heartbeat()) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
    c.join()
    d.join()
    assert c.client.joined().generation_id == 3

    transcript.bench.reload()
    assert transcript.bench.shard.state.groups["g"].state_name == "Stable"


def test_group_is_downgraded_when_the_session_of_its_last_consumer_member_expires() -> None:
    settings = GroupSettings(consumer_min_session_timeout_ms=5_000, consumer_session_timeout_ms=5_000)
    transcript = Transcript(GroupBench(settings))
    (c,) = stable_classic(transcript, {"c": {"orders": [0, 1, 2, 3]}})
    Consumer(transcript, "a", "orders").join()
    for _ in range(2):
        c.join()
        c.sync()
    transcript.bench.advance(5_000)
    assert isinstance(transcript.bench.shard.state.groups["g"], ClassicGroup)
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_member_changes_protocols_back_and_forth() -> None:
    transcript = Transcript()
    stable_classic(transcript, {"c": {"orders": [0, 1, 2, 3]}}, instance="i")
    first, second = f"i{C[1:]}", f"i{D[1:]}"
    a = Consumer(transcript, "a", "orders", instance_id="i")
    a.join()
    back = Classic(transcript, "c", instance="i")
    back.join()
    assert transcript.text == (
        f"""\
> a joins orders
x2
5 {first} orders as i classic
3 epoch 1
7 {first} orders:0,1,2,3
6 epoch 1
8 {first} epoch 1 ← 1 stable orders:0@1,1@1,2@1,3@1
x8 {first}
x7 {first}
x5 {first}
5 a orders as i classic
7 a orders:0,1,2,3
8 a epoch 0 ← 0 stable orders:0@1,1@1,2@1,3@1
5 a orders as i
8 a epoch 1 ← 0 stable orders:0@1,1@1,2@1,3@1
a at 1 has orders:0,1,2,3
> c joins
x8 a
x7 a
x5 a
5 {second} orders as i
7 {second} orders:0,1,2,3
8 {second} epoch 0 ← 0 stable orders:0@1,1@1,2@1,3@1
5 {second} orders as i classic
8 {second} epoch 1 ← 0 stable orders:0@1,1@1,2@1,3@1
x8 {second}
x7 {second}
x6
x5 {second}
x4
x3
2 generation 1 cooperative-sticky {second}
c in generation 1
"""
    )
    transcript.bench.advance(1)
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicState.STABLE, "the assignment is the current one, so nothing has to move"
    assert back.heartbeat() is ErrorCode.NONE
    assert a.heartbeat().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    transcript.bench.reload()
    assert isinstance(transcript.bench.shard.state.groups["g"], ClassicGroup)


def test_migration_policy_can_forbid_the_downgrade() -> None:
    transcript = Transcript(GroupBench(GroupSettings(consumer_migration_policy="upgrade")))
    stable_classic(transcript, {"c": {"orders": [0, 1, 2, 3]}})
    a = Consumer(transcript, "a", "orders")
    a.join()
    a.leave()
    assert isinstance(transcript.bench.shard.state.groups["g"], ConsumerGroup)


def test_remaining_classic_members_get_the_partitions_of_the_last_consumer_member() -> None:
    transcript = Transcript(GroupBench(GroupSettings(consumer_migration_policy="upgrade")))
    (c,) = stable_classic(transcript, {"c": {"orders": [0, 1, 2, 3]}})
    a = Consumer(transcript, "a", "orders")
    a.join()
    for _ in range(2):
        assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        c.join()
        c.sync()
    a.heartbeat()
    assert c.heartbeat() is ErrorCode.NONE
    assert len(c.owned["orders"]) == 2
    transcript.bench.advance(1_000)
    a.leave()
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, (
        "no other member would trigger a new target assignment"
    )
    c.join()
    c.sync()
    assert c.owned == {"orders": [0, 1, 2, 3]}
    assert c.heartbeat() is ErrorCode.NONE


@pytest.mark.parametrize(
    "settings",
    [
        GroupSettings(consumer_migration_policy="disabled"),
        GroupSettings(consumer_migration_policy="downgrade"),
        GroupSettings(consumer_max_size=1),
    ],
)
def test_migration_policy_can_forbid_the_upgrade(settings: GroupSettings) -> None:
    transcript = Transcript(GroupBench(settings))
    c, _ = stable_classic(transcript, {"c": {"orders": [0, 1]}, "d": {"orders": [2, 3]}})
    assert Consumer(transcript, "a", "orders").join().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert c.heartbeat() is ErrorCode.NONE


@pytest.mark.parametrize(
    "assignment",
    [b"\x00", b"\x00\x01garbage", assigned({"orders": [2]}, user_data=b"mine"), assigned({"orders": [0, 1]})],
    ids=["truncated", "garbage", "user data", "assigned twice"],
)
def test_groups_that_cannot_be_upgraded(assignment: bytes) -> None:
    transcript = Transcript()
    c, d = stable_classic(transcript, {"c": {"orders": [0, 1]}, "d": {"orders": [2, 3]}})
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    group.members[D].assignment = assignment
    response = Consumer(transcript, "a", "orders").join()
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message is not None
    assert response.error_message.startswith("Cannot upgrade classic group g to consumer group because ")
    assert (c.heartbeat(), d.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)


def test_rejected_member_does_not_change_the_classic_group() -> None:
    transcript = Transcript()
    (c,) = stable_classic(transcript, {"c": {"orders": [0, 1, 2, 3]}})
    d = Classic(transcript, "d")
    d.join()
    assert d.client.waits
    assert Consumer(transcript, "a", regex="(").join().error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert d.client.waits, "its JoinGroup is still parked"
    c.join()
    assert c.client.generation == 2


def test_other_protocol_types_cannot_join() -> None:
    transcript = Transcript()
    connect = ClassicClient(
        transcript.bench, "w", protocol_type="connect", protocols={"default": b"", "compatible": b""}
    )
    connect.join()
    transcript.bench.advance(3_000)
    connect.joined()
    assert Consumer(transcript, "a", "orders").join().error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("instance_id", [None, "i", "another"])
def test_without_migration_classic_members_cannot_join_a_consumer_group(instance_id: str | None) -> None:
    transcript = Transcript(GroupBench(GroupSettings(consumer_migration_policy="disabled")))
    Consumer(transcript, "a", "orders", instance_id="i").join()
    response = ClassicClient(transcript.bench, "c", instance=instance_id).join()
    assert response is not None
    assert (response.error_code, response.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_errors_of_classic_clients() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders")
    a.join()
    bench = transcript.bench

    def join_with(**owned: object) -> ErrorCode:
        client = ClassicClient(bench, "c", **owned)  # type: ignore[arg-type]
        client.member_id = "named"
        response = client.join()
        assert response is not None
        code = ErrorCode(response.error_code)
        # Apache Kafka checks the session before the group and names the member only there.
        assert response.member_id == ("named" if code is ErrorCode.INVALID_SESSION_TIMEOUT else "")
        return code

    assert join_with(session_ms=1) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert join_with(protocol_type="connect") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert join_with(protocols={}) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert join_with(protocols={"range": b"\x00"}) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    c = Classic(transcript, "c")
    assert c.join() is ErrorCode.NONE
    assert join_with(protocols={"sticky": b""}) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    c.client.generation += 1
    assert c.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert c.sync() is ErrorCode.ILLEGAL_GENERATION
    c.client.generation -= 1
    c.client.protocol = "sticky"
    assert c.sync() is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    c.client.member_id = "a"
    c.client.generation = a.epoch
    assert c.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "it uses the consumer protocol"
    c.client.member_id = "unknown"
    assert c.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_operators_remove_members_of_both_protocols() -> None:
    transcript = Transcript()
    Consumer(transcript, "a", "orders", instance_id="i").join()
    Consumer(transcript, "b", "orders").join()
    c = Classic(transcript, "c")
    c.join()
    transcript.lines.clear()
    leaving = [
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id=c.client.member_id),
        MemberIdentity(member_id="unknown"),
        MemberIdentity(member_id="another", group_instance_id="i"),
    ]
    response = transcript.bench.call(LeaveGroupRequest(group_id="g", members=leaving), LeaveGroupResponse)
    assert [ErrorCode(member.error_code) for member in response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert response.members[0].group_instance_id == "i"
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["b"]
    old = transcript.bench.call(
        LeaveGroupRequest(group_id="g", member_id="unknown"), LeaveGroupResponse, version=1
    )
    assert old.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_show_their_protocol() -> None:
    transcript = Transcript()
    stable_classic(transcript, {"c": {"orders": [0, 1, 2, 3]}})
    Consumer(transcript, "a", "orders").join()
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    (group,) = transcript.bench.call(request, ConsumerGroupDescribeResponse).groups
    assert [(member.member_id, member.member_type) for member in group.members] == [(C, 0), ("a", 1)]
    assert group.members[0].rack_id == "r"


def test_mixed_group_survives_a_coordinator_move() -> None:
    transcript = Transcript()
    c, d = stable_classic(transcript, {"c": {"orders": [0, 1]}, "d": {"orders": [2, 3]}})
    a = Consumer(transcript, "a", "orders")
    a.join()
    transcript.reload()
    for each in (c, d, d):
        assert each.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        each.join()
        each.sync()
    a.heartbeat()
    assert [c.heartbeat(), d.heartbeat()] == [ErrorCode.NONE, ErrorCode.NONE]
    assert transcript.bench.shard.state.groups["g"].state_name == "Stable"


def test_empty_consumer_group_becomes_classic() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders")
    a.join()
    a.leave()
    transcript.lines.clear()
    c = Classic(transcript, "c")
    c.join()
    assert transcript.lines[1:5] == ["x6", "x4", "x3", "2 generation 0 None "]
    transcript.bench.advance(3_000)
    assert c.client.joined().generation_id == 1
    transcript.bench.reload()
    assert isinstance(transcript.bench.shard.state.groups["g"], ClassicGroup)
