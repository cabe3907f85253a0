"""The target: which assignor makes it, and what happens while one works, fails or comes too late."""

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
from tests.support.groups.consumer_transcript import Consumer, Story
from tests.support.groups.group_bench import GroupBench, topic_id

ORDERS = topic_id(1_000)
OWN = GroupSettings(consumer_assignors=("own", "uniform", "range", "lag-aware"))


def own_story() -> Story:
    """A group whose assignor is a user's: the machine must ask for it."""
    return Story(GroupBench(OWN))


def the_ask(story: Story) -> ComputeTarget:
    (ask,) = story.bench.queries
    assert isinstance(ask, ComputeTarget)
    story.bench.queries.clear()
    return ask


def response(story: Story, ask: ComputeTarget, result: AssignorResult) -> None:
    story.tell(f"{ask.assignor} answers for epoch {ask.group_epoch}")
    story.bench.run(TargetComputed(ask.group_id, ask.group_epoch, result))
    story.show()


def the_group(story: Story) -> ConsumerGroup:
    group = story.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


def test_users_assignor_computes_the_target() -> None:
    story = own_story()
    a = Consumer(story, "a", "orders", rack_id="r", client_id="app-1")
    a.join()
    ask = the_ask(story)
    a.beat("beats meanwhile")
    assert story.bench.queries == [], "one question at a time"
    response(story, ask, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    a.beat()
    assert story.text == (
        """\
> a joins orders
5 a orders
3 epoch 2
8 a epoch 1 ← 0 stable
a at 1 has nothing
> a beats meanwhile
a at 1
> own answers for epoch 2
7 a orders:0,1,2,3
6 epoch 2
> a beats
8 a epoch 2 ← 1 stable orders:0@2,1@2,2@2,3@2
a at 2 has orders:0,1,2,3
"""
    )
    spec = ask.spec
    assert isinstance(spec, GroupSpec)
    member = spec.members["a"]
    assert (member.rack_id, member.client_id) == ("r", "app-1")
    assert member.subscribed_topic_ids == {ORDERS}
    assert spec.topics[ORDERS].partition_count == 4


def test_failure_keeps_the_previous_target() -> None:
    story = own_story()
    a, b = Consumer(story, "a", "orders"), Consumer(story, "b", "orders")
    a.join()
    response(story, the_ask(story), {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    a.beat()
    story.bench.advance(1_000)
    b.join()
    failure = AssignorFailure("own", "ZeroDivisionError: division by zero")
    response(story, the_ask(story), failure)
    story.lines.clear()
    a.beat()
    b.beat()
    assert story.lines == ["> a beats", "a at 2", "> b beats", "b at 2"]
    assert story.bench.queries == [], "it is not tried again with every heartbeat"
    assert the_group(story).failure == failure
    assert the_group(story).state_name == "Assigning"

    story.bench.advance(10_000)
    b.beat()
    response(story, the_ask(story), {"a": {ORDERS: frozenset({0, 1})}, "b": {ORDERS: frozenset({2, 3})}})
    assert the_group(story).failure is None
    assert story.lines[-3:] == ["7 a orders:0,1", "7 b orders:2,3", "6 epoch 3"]


def test_change_of_the_group_is_a_reason_to_try_again() -> None:
    story = own_story()
    a, b = Consumer(story, "a", "orders"), Consumer(story, "b", "orders")
    a.join()
    response(story, the_ask(story), AssignorFailure("own", "too slow"))
    b.join()
    assert the_ask(story).group_epoch == 3


def test_target_for_an_old_epoch_is_computed_again() -> None:
    story = own_story()
    a, b = Consumer(story, "a", "orders"), Consumer(story, "b", "orders")
    a.join()
    late = the_ask(story)
    b.join()
    assert story.bench.queries == []
    response(story, late, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    ask = the_ask(story)
    assert ask.group_epoch == 3
    assert isinstance(ask.spec, GroupSpec)
    assert list(ask.spec.members) == ["a", "b"]
    response(story, ask, AssignorFailure("own", "does not like b"))
    assert story.bench.queries == []


def test_target_for_a_replaced_member_id_is_computed_again() -> None:
    story = own_story()
    a = Consumer(story, "a", "orders", instance_id="i")
    a.join()
    late = the_ask(story)
    a.leave(-2)
    Consumer(story, "a2", "orders", instance_id="i").join()
    response(story, late, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    ask = the_ask(story)
    assert isinstance(ask.spec, GroupSpec)
    assert list(ask.spec.members) == ["a2"]


def test_late_result_for_a_deleted_or_current_group_is_ignored() -> None:
    story = own_story()
    a = Consumer(story, "a", "orders")
    a.join()
    ask = the_ask(story)
    response(story, ask, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    written = len(story.bench.log)
    response(story, ask, {"a": {}})
    story.bench.run(TargetComputed("no such group", 2, {"a": {}}))
    assert len(story.bench.log) == written


def test_lost_target_is_queried_again() -> None:
    story = own_story()
    a = Consumer(story, "a", "orders")
    a.join()
    first = the_ask(story)
    for _ in range(2):
        story.bench.advance(30_000)
        a.beat()
    assert the_ask(story) == first


def test_failed_append_cancels_the_query() -> None:
    story = own_story()
    story.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    a = Consumer(story, "a", "orders")
    a.join()
    the_ask(story)
    assert story.bench.shard.state.timers.get(TimerKey("g", None, TimerKind.ASSIGNMENT)) is None
    a.join()
    assert the_ask(story).group_epoch == 2


def test_most_members_decide_on_the_assignor() -> None:
    story = own_story()
    Consumer(story, "a", "orders", assignor="range").join()
    assert story.bench.queries == []
    b = Consumer(story, "b", "orders", assignor="own")
    story.bench.advance(1_000)
    b.join()
    assert the_ask(story).assignor == "own", "of two that are named as often the first configured"
    story.bench.advance(60_000)
    Consumer(story, "c", "orders", assignor="range").join()
    assert story.bench.queries == []
    assert the_group(story).preferred_assignor(OWN.consumer_assignors) == "range"


def test_removed_assignor_is_replaced() -> None:
    story = own_story()
    a = Consumer(story, "a", "orders", assignor="own")
    a.join()
    story.bench.settings = GroupSettings()
    story.reload()
    a.beat()
    assert story.lines[-1] == "a at 2 has orders:0,1,2,3"


def test_assignors_with_lag_run_in_the_driver() -> None:
    story = Story(GroupBench(GroupSettings(consumer_assignors=("lag-aware",))))
    Consumer(story, "a", "orders").join()
    assert the_ask(story).assignor == "lag-aware"


def test_what_kind_of_group_the_assignor_sees() -> None:
    seen: list[GroupSpec] = []

    class Watched(InlineAssignors):
        def assign(self, name: str, spec: GroupSpec) -> AssignorResult | None:
            seen.append(spec)
            return super().assign(name, spec)

    def last() -> GroupSpec:
        return seen[-1]

    settings = GroupSettings(consumer_assignment_interval_ms=0)
    story = Story(GroupBench(settings, assignors=Watched()))
    a, b = Consumer(story, "a", "orders"), Consumer(story, "b", "orders")
    a.join()
    assert last().homogeneous
    b.join()
    assert last().homogeneous
    assert {topic.name for topic in last().topics.values()} == {"orders"}
    b.subscribe("orders", "parcels")
    assert not last().homogeneous
    a.subscribe("orders", "parcels", "not there")
    assert not last().homogeneous, "what does not exist is part of a subscription too"
    assert last().members["a"].subscribed_topic_ids == {ORDERS, topic_id(1_001)}
    a.subscribe(regex="ord.*")
    b.subscribe(regex="ord.*")
    story.bench.advance(1)
    story.resolve({"ord.*": ["orders"]})
    b.beat()
    assert last().homogeneous
    assert last().members["a"].subscribed_topic_ids == {ORDERS}


def test_a_wall_clock_that_was_set_back_does_not_delay_targets() -> None:
    story = Story()
    a, b = Consumer(story, "a", "orders"), Consumer(story, "b", "orders")
    a.join()
    story.bench.advance(1_000)
    story.bench.wall_shift_ms = -3_600_000
    b.join()
    assert the_group(story).target_epoch == the_group(story).epoch


def test_late_result_does_not_delay_a_recreated_group() -> None:
    story = own_story()
    a, b = Consumer(story, "a", "orders"), Consumer(story, "b", "orders")
    a.join()
    ask = the_ask(story)
    a.leave()
    story.bench.ask(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
    response(story, ask, {"a": {ORDERS: frozenset({0, 1, 2, 3})}})
    b.join()
    response(story, the_ask(story), {"b": {ORDERS: frozenset({0, 1, 2, 3})}})
    b.beat()
    assert story.lines[-1] == "b at 2 has orders:0,1,2,3"
