"""Subscriptions by pattern."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.consumer.patterns import check_pattern, matching_topics
from ruslo.machines.groups.events import RegexResolved, ResolveRegex
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from tests.support.groups.consumer_transcript import Consumer, Story
from tests.support.groups.group_bench import Topics


def test_first_pattern_is_resolved_in_the_background() -> None:
    story = Story()
    a = Consumer(story, "a", regex="ord.*")
    a.join()
    a.beat("beats before there is an answer")
    story.resolve({"ord.*": ["orders"]})
    a.beat()
    b = Consumer(story, "b", regex="ord.*")
    story.bench.advance(1_000)
    b.join()
    assert story.bench.queries == []
    assert story.text == (
        """\
> a joins ~ord.*
5 a ~ord.*
8 a epoch 1 ← 0 stable
a at 1 has nothing
> a beats before there is an answer
a at 1
> patterns are resolved
16 ord.* orders
3 epoch 2
> a beats
7 a orders:0,1,2,3
6 epoch 2
8 a epoch 2 ← 1 stable orders:0@2,1@2,2@2,3@2
a at 2 has orders:0,1,2,3
> b joins ~ord.*
5 b ~ord.*
3 epoch 3
7 a orders:0,1
7 b orders:2,3
6 epoch 3
8 b epoch 3 ← 0 unreleased
b at 3 has nothing
"""
    )


def test_created_topics_are_matched_ten_seconds_later() -> None:
    story = Story()
    a = Consumer(story, "a", regex="ord.*")
    a.join()
    story.resolve({"ord.*": ["orders"]})
    a.beat()
    topics = Topics({"orders": 4, "parcels": 2, "ordinary": 1}, version=7)
    story.change_topics("ordinary is created", topics)
    a.beat()
    assert story.bench.queries == []
    story.bench.advance(10_001)
    story.lines.clear()
    a.beat()
    story.resolve({"ord.*": ["orders", "ordinary"]})
    a.beat()
    story.bench.advance(10_001)
    a.beat()
    assert story.bench.queries == [], "nothing was created since"
    assert story.text == (
        """\
> a beats
a at 2
> patterns are resolved
16 ord.* orders,ordinary
3 epoch 3
> a beats
7 a orders:0,1,2,3 ordinary:0
6 epoch 3
8 a epoch 3 ← 2 stable orders:0@2,1@2,2@2,3@2 ordinary:0@3
a at 3 has orders:0,1,2,3 ordinary:0
> a beats
a at 3
"""
    )


def test_patterns_are_resolved_again_after_ten_minutes() -> None:
    story = Story()
    a = Consumer(story, "a", regex="ord.*")
    a.join()
    story.resolve({"ord.*": ["orders"]})
    for _ in range(20):
        story.bench.advance(30_000)
        a.beat()
        assert story.bench.queries == []
    story.bench.advance(1)
    story.lines.clear()
    a.beat()
    story.resolve({"ord.*": ["orders"]})
    assert story.lines == ["> a beats", "a at 2", "> patterns are resolved", "16 ord.* orders"]


def test_lost_result_is_queried_again() -> None:
    story = Story()
    a = Consumer(story, "a", regex="ord.*")
    a.join()
    story.bench.queries.clear()
    story.bench.advance(30_000)
    a.beat()
    assert story.bench.queries == []
    story.bench.advance(30_000)
    a.beat()
    assert story.bench.queries == [ResolveRegex("g", ("ord.*",))]


def test_query_is_repeated_if_the_member_could_not_be_written() -> None:
    story = Story()
    story.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    a = Consumer(story, "a", regex="ord.*")
    a.join()
    story.bench.queries.clear()
    a.join()
    assert story.bench.queries == [ResolveRegex("g", ("ord.*",))]


def test_pattern_is_removed_with_its_last_member() -> None:
    story = Story()
    a, b = Consumer(story, "a", regex="ord.*"), Consumer(story, "b", regex="ord.*")
    a.join()
    story.resolve({"ord.*": ["orders"]})
    b.join()
    story.lines.clear()
    a.leave()
    b.leave()
    assert [line for line in story.lines if "16" in line] == ["x16 ord.*"]
    assert story.lines.index("x16 ord.*") == story.lines.index("x5 b") + 1


def test_member_changes_its_pattern() -> None:
    story = Story()
    a = Consumer(story, "a", regex="ord.*")
    a.join()
    story.resolve({"ord.*": ["orders"]})
    a.beat()
    story.bench.advance(20_000)
    story.lines.clear()
    a.subscribe(regex="par.*")
    story.resolve({"par.*": ["parcels"]})
    a.own("says that it let go")
    a.subscribe("orders")
    assert story.text == (
        """\
> a subscribes to ~par.*
5 a ~par.*
x16 ord.*
8 a epoch 2 ← 2 unrevoked revoke orders:0@2,1@2,2@2,3@2
a at 2 has nothing
> patterns are resolved
16 par.* parcels
3 epoch 3
> a says that it let go
7 a parcels:0,1
6 epoch 3
8 a epoch 3 ← 2 stable parcels:0@3,1@3
a at 3 has parcels:0,1
> a subscribes to orders
5 a orders
x16 par.*
3 epoch 4
8 a epoch 3 ← 3 unrevoked revoke parcels:0@3,1@3
a at 3 has nothing
"""
    )


def test_late_result_for_an_unused_pattern_is_dropped() -> None:
    story = Story()
    a = Consumer(story, "a", "orders", regex="par.*")
    a.join()
    a.subscribe("orders")
    story.lines.clear()
    story.resolve({"par.*": ["parcels"]})
    assert story.lines == ["> patterns are resolved"]
    story.bench.run(RegexResolved("no such group", {}))


def test_names_and_pattern_together() -> None:
    story = Story()
    a = Consumer(story, "a", "parcels", regex="ord.*")
    a.join()
    story.resolve({"ord.*": ["orders", "parcels"]})
    story.bench.advance(1_000)
    a.beat()
    assert story.lines[-1] == "a at 3 has orders:0,1,2,3 parcels:0,1"


def test_patterns_are_loaded_from_the_log() -> None:
    story = Story()
    a = Consumer(story, "a", regex="ord.*")
    a.join()
    story.resolve({"ord.*": ["orders"]})
    a.beat()
    story.reload()
    a.beat()
    assert story.lines[-1] == "a at 2"
    assert story.bench.shard.state.groups["g"].subscribes_to("orders")
    assert story.bench.queries == []


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("ord.*", ("orders",)),
        ("(^ord.*)", ("orders",)),
        ("orders|parcels", ("orders", "parcels")),
        ("rde", ()),
        ("__.*", ("__consumer_offsets",)),
        ("", ()),
        ("(?i)ORDERS", ("orders",)),
    ],
)
def test_patterns_match_whole_names(pattern: str, found: tuple[str, ...]) -> None:
    assert matching_topics(pattern, ["parcels", "orders", "__consumer_offsets"]) == found


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?=look)", "\\1", "[z-a]", "a\udc80"])
def test_invalid_patterns(pattern: str) -> None:
    with pytest.raises(KafkaError, match="is not an RE2 regular expression") as refused:
        check_pattern(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_hostile_pattern_takes_linear_time() -> None:
    # A backtracking matcher would not come back from this.
    assert matching_topics("(a*)*(a*)*(a*)*b", ["a" * 249]) == ()


def test_a_wall_clock_that_was_set_back_does_not_delay_patterns() -> None:
    story = Story()
    a, b = Consumer(story, "a", regex="ord.*"), Consumer(story, "b", regex="par.*")
    a.join()
    story.resolve({"ord.*": ["orders"]})
    story.bench.advance(10_001)
    story.bench.wall_shift_ms = -3_600_000
    b.join()
    story.resolve({"ord.*": ["orders"], "par.*": ["parcels"]})
    assert "16 par.* parcels" in story.lines


def test_question_of_a_group_that_has_ended_does_not_hold_up_its_successor() -> None:
    story = Story()
    a, b = Consumer(story, "a", regex="ord.*"), Consumer(story, "b", regex="ord.*")
    a.join()
    a.leave()
    story.bench.ask(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
    story.resolve({"ord.*": ["orders"]})
    b.join()
    story.resolve({"ord.*": ["orders"]})
    assert "16 ord.* orders" in story.lines
