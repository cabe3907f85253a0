"""Target assignments: which assignor computes them, and what happens while it runs, fails or is too late."""

from __future__ import annotations

from ruslo.machines.assignors.spec import GroupSpec
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.ports import AssignorFailure, AssignorResult, InlineAssignors
from ruslo.machines.groups.events import ComputeTarget, TargetComputed
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import GroupBench, topic_id

ORDERS = topic_id(1_000)
OWN = GroupSettings(consumer_assignors=("own", "uniform", "range", "lag-aware"))


def transcript_with_custom_assignor() -> Transcript:
    """A group with a custom assignor, which runs outside the machine."""
    return Transcript(GroupBench(OWN))


def take_query(transcript: Transcript) -> ComputeTarget:
    (query,) = transcript.bench.queries
    assert isinstance(query, ComputeTarget)
    transcript.bench.queries.clear()
    return query


def send_result(transcript: Transcript, query: ComputeTarget, result: AssignorResult) -> None:
    transcript.step(f"{query.assignor} responds for epoch {query.group_epoch}")
    transcript.bench.run(TargetComputed(query.group_id, query.group_epoch, result))
    transcript.show()


def consumer_group(transcript: Transcript) -> ConsumerGroup:
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


def test_custom_assignor_computes_the_target() -> None:
    transcript = transcript_with_custom_assignor()
    a = Consumer(transcript, "a", "orders", rack_id="r", client_id="app-1")
    a.join()
    query = take_query(transcript)
    a.heartbeat("sends a heartbeat in between")
    assert transcript.bench.queries == [], "only one query is pending"
    send_result(transcript, query, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    a.heartbeat()
    assert transcript.text == (
        """\
> a joins orders
5 a orders
3 epoch 2
8 a epoch 1 ← 0 stable
a at 1 has nothing
> a sends a heartbeat in between
a at 1
> own responds for epoch 2
7 a orders:0,1,2,3
6 epoch 2
> a sends a heartbeat
8 a epoch 2 ← 1 stable orders:0@2,1@2,2@2,3@2
a at 2 has orders:0,1,2,3
"""
    )
    spec = query.spec
    assert isinstance(spec, GroupSpec)
    member = spec.members["a"]
    assert (member.rack_id, member.client_id) == ("r", "app-1")
    assert member.subscribed_topic_ids == {ORDERS}
    assert spec.topics[ORDERS].partition_count == 4


def test_failure_keeps_the_previous_target() -> None:
    transcript = transcript_with_custom_assignor()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    send_result(transcript, take_query(transcript), {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    a.heartbeat()
    transcript.bench.advance(1_000)
    b.join()
    failure = AssignorFailure("own", "ZeroDivisionError: division by zero")
    send_result(transcript, take_query(transcript), failure)
    transcript.lines.clear()
    a.heartbeat()
    b.heartbeat()
    assert transcript.lines == ["> a sends a heartbeat", "a at 2", "> b sends a heartbeat", "b at 2"]
    assert transcript.bench.queries == [], "heartbeats do not retry it"
    assert consumer_group(transcript).failure == failure
    assert consumer_group(transcript).state_name == "Assigning"

    transcript.bench.advance(10_000)
    b.heartbeat()
    send_result(
        transcript,
        take_query(transcript),
        {"a": {ORDERS: frozenset({0, 1})}, "b": {ORDERS: frozenset({2, 3})}},
    )
    assert consumer_group(transcript).failure is None
    assert transcript.lines[-3:] == ["7 a orders:0,1", "7 b orders:2,3", "6 epoch 3"]


def test_change_of_the_group_retries_the_assignor() -> None:
    transcript = transcript_with_custom_assignor()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    send_result(transcript, take_query(transcript), AssignorFailure("own", "too slow"))
    b.join()
    assert take_query(transcript).group_epoch == 3


def test_target_for_an_old_epoch_is_computed_again() -> None:
    transcript = transcript_with_custom_assignor()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    late = take_query(transcript)
    b.join()
    assert transcript.bench.queries == []
    send_result(transcript, late, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    query = take_query(transcript)
    assert query.group_epoch == 3
    assert isinstance(query.spec, GroupSpec)
    assert list(query.spec.members) == ["a", "b"]
    send_result(transcript, query, AssignorFailure("own", "does not like b"))
    assert transcript.bench.queries == []


def test_target_for_a_replaced_member_id_is_computed_again() -> None:
    transcript = transcript_with_custom_assignor()
    a = Consumer(transcript, "a", "orders", instance_id="i")
    a.join()
    late = take_query(transcript)
    a.leave(-2)
    Consumer(transcript, "a2", "orders", instance_id="i").join()
    send_result(transcript, late, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    query = take_query(transcript)
    assert isinstance(query.spec, GroupSpec)
    assert list(query.spec.members) == ["a2"]


def test_late_result_for_a_deleted_or_current_group_is_ignored() -> None:
    transcript = transcript_with_custom_assignor()
    a = Consumer(transcript, "a", "orders")
    a.join()
    query = take_query(transcript)
    send_result(transcript, query, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    written = len(transcript.bench.log)
    send_result(transcript, query, {"a": {}})
    transcript.bench.run(TargetComputed("no such group", 2, {"a": {}}))
    assert len(transcript.bench.log) == written


def test_lost_target_is_queried_again() -> None:
    transcript = transcript_with_custom_assignor()
    a = Consumer(transcript, "a", "orders")
    a.join()
    first = take_query(transcript)
    for _ in range(2):
        transcript.bench.advance(30_000)
        a.heartbeat()
    assert take_query(transcript) == first


def test_failed_append_cancels_the_query() -> None:
    transcript = transcript_with_custom_assignor()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    a = Consumer(transcript, "a", "orders")
    a.join()
    take_query(transcript)
    assert transcript.bench.shard.state.timers.get(TimerKey("g", None, TimerKind.ASSIGNMENT)) is None
    a.join()
    assert take_query(transcript).group_epoch == 2


def test_assignor_of_most_members_is_used() -> None:
    transcript = transcript_with_custom_assignor()
    Consumer(transcript, "a", "orders", assignor="range").join()
    assert transcript.bench.queries == []
    b = Consumer(transcript, "b", "orders", assignor="own")
    transcript.bench.advance(1_000)
    b.join()
    assert take_query(transcript).assignor == "own", (
        "of two equally popular assignors the first configured one wins"
    )
    transcript.bench.advance(60_000)
    Consumer(transcript, "c", "orders", assignor="range").join()
    assert transcript.bench.queries == []
    assert consumer_group(transcript).preferred_assignor(OWN.consumer_assignors) == "range"


def test_removed_assignor_is_replaced() -> None:
    transcript = transcript_with_custom_assignor()
    a = Consumer(transcript, "a", "orders", assignor="own")
    a.join()
    transcript.bench.settings = GroupSettings()
    transcript.reload()
    a.heartbeat()
    assert transcript.lines[-1] == "a at 2 has orders:0,1,2,3"


def test_assignors_with_lag_run_in_the_driver() -> None:
    transcript = Transcript(GroupBench(GroupSettings(consumer_assignors=("lag-aware",))))
    Consumer(transcript, "a", "orders").join()
    assert take_query(transcript).assignor == "lag-aware"


def test_group_spec_of_an_assignor() -> None:
    specs: list[GroupSpec] = []

    class Recording(InlineAssignors):
        def assign(self, name: str, spec: GroupSpec) -> AssignorResult | None:
            specs.append(spec)
            return super().assign(name, spec)

    def last() -> GroupSpec:
        return specs[-1]

    settings = GroupSettings(consumer_assignment_interval_ms=0)
    transcript = Transcript(GroupBench(settings, assignors=Recording()))
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    assert last().homogeneous
    b.join()
    assert last().homogeneous
    assert {topic.name for topic in last().topics.values()} == {"orders"}
    b.subscribe("orders", "parcels")
    assert not last().homogeneous
    a.subscribe("orders", "parcels", "not there")
    assert not last().homogeneous, "a subscription includes topics that do not exist"
    assert last().members["a"].subscribed_topic_ids == {ORDERS, topic_id(1_001)}
    a.subscribe(regex="ord.*")
    b.subscribe(regex="ord.*")
    transcript.bench.advance(1)
    transcript.resolve({"ord.*": ["orders"]})
    b.heartbeat()
    assert last().homogeneous
    assert last().members["a"].subscribed_topic_ids == {ORDERS}


def test_wall_clock_set_back_does_not_delay_targets() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    transcript.bench.advance(1_000)
    transcript.bench.wall_shift_ms = -3_600_000
    b.join()
    assert consumer_group(transcript).target_epoch == consumer_group(transcript).epoch


def test_late_result_does_not_delay_a_recreated_group() -> None:
    transcript = transcript_with_custom_assignor()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    query = take_query(transcript)
    a.leave()
    transcript.bench.call(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
    send_result(transcript, query, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    b.join()
    send_result(transcript, take_query(transcript), {"b": {ORDERS: frozenset({0, 1, 2, 3})}})
    b.heartbeat()
    assert transcript.lines[-1] == "b at 2 has orders:0,1,2,3"
