"""Subscriptions by regular expression."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.consumer.patterns import check_pattern, matching_topics
from ruslo.machines.groups.events import RegexResolved, ResolveRegex
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import Topics


def test_first_pattern_is_resolved_in_the_background() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", regex="ord.*")
    a.join()
    a.heartbeat("sends a heartbeat before the pattern is resolved")
    transcript.resolve({"ord.*": ["orders"]})
    a.heartbeat()
    b = Consumer(transcript, "b", regex="ord.*")
    transcript.bench.advance(1_000)
    b.join()
    assert transcript.bench.queries == []
    assert transcript.text == (
        """\
> a joins ~ord.*
5 a ~ord.*
8 a epoch 1 ← 0 stable
a at 1 has nothing
> a sends a heartbeat before the pattern is resolved
a at 1
> patterns are resolved
16 ord.* orders
3 epoch 2
> a sends a heartbeat
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
    transcript = Transcript()
    a = Consumer(transcript, "a", regex="ord.*")
    a.join()
    transcript.resolve({"ord.*": ["orders"]})
    a.heartbeat()
    topics = Topics({"orders": 4, "parcels": 2, "ordinary": 1}, version=7)
    transcript.change_topics("ordinary is created", topics)
    a.heartbeat()
    assert transcript.bench.queries == []
    transcript.bench.advance(10_001)
    transcript.lines.clear()
    a.heartbeat()
    transcript.resolve({"ord.*": ["orders", "ordinary"]})
    a.heartbeat()
    transcript.bench.advance(10_001)
    a.heartbeat()
    assert transcript.bench.queries == [], "no topic was created since"
    assert transcript.text == (
        """\
> a sends a heartbeat
a at 2
> patterns are resolved
16 ord.* orders,ordinary
3 epoch 3
> a sends a heartbeat
7 a orders:0,1,2,3 ordinary:0
6 epoch 3
8 a epoch 3 ← 2 stable orders:0@2,1@2,2@2,3@2 ordinary:0@3
a at 3 has orders:0,1,2,3 ordinary:0
> a sends a heartbeat
a at 3
"""
    )


def test_patterns_are_resolved_again_after_ten_minutes() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", regex="ord.*")
    a.join()
    transcript.resolve({"ord.*": ["orders"]})
    for _ in range(20):
        transcript.bench.advance(30_000)
        a.heartbeat()
        assert transcript.bench.queries == []
    transcript.bench.advance(1)
    transcript.lines.clear()
    a.heartbeat()
    transcript.resolve({"ord.*": ["orders"]})
    assert transcript.lines == [
        "> a sends a heartbeat",
        "a at 2",
        "> patterns are resolved",
        "16 ord.* orders",
    ]


def test_lost_result_is_queried_again() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", regex="ord.*")
    a.join()
    transcript.bench.queries.clear()
    transcript.bench.advance(30_000)
    a.heartbeat()
    assert transcript.bench.queries == []
    transcript.bench.advance(30_000)
    a.heartbeat()
    assert transcript.bench.queries == [ResolveRegex("g", ("ord.*",), host="10.0.0.3")]


def test_query_is_repeated_if_the_member_failed_to_append() -> None:
    transcript = Transcript()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    a = Consumer(transcript, "a", regex="ord.*")
    a.join()
    transcript.bench.queries.clear()
    a.join()
    assert transcript.bench.queries == [ResolveRegex("g", ("ord.*",), host="10.0.0.3")]


def test_pattern_is_removed_with_its_last_member() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", regex="ord.*"), Consumer(transcript, "b", regex="ord.*")
    a.join()
    transcript.resolve({"ord.*": ["orders"]})
    b.join()
    transcript.lines.clear()
    a.leave()
    b.leave()
    assert [line for line in transcript.lines if "16" in line] == ["x16 ord.*"]
    assert transcript.lines.index("x16 ord.*") == transcript.lines.index("x5 b") + 1


def test_member_changes_its_pattern() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", regex="ord.*")
    a.join()
    transcript.resolve({"ord.*": ["orders"]})
    a.heartbeat()
    transcript.bench.advance(20_000)
    transcript.lines.clear()
    a.subscribe(regex="par.*")
    transcript.resolve({"par.*": ["parcels"]})
    a.report_owned("reports the revocation")
    a.subscribe("orders")
    assert transcript.text == (
        """\
> a subscribes to ~par.*
5 a ~par.*
x16 ord.*
8 a epoch 2 ← 2 unrevoked revoke orders:0@2,1@2,2@2,3@2
a at 2 has nothing
> patterns are resolved
16 par.* parcels
3 epoch 3
> a reports the revocation
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
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", regex="par.*")
    a.join()
    a.subscribe("orders")
    transcript.lines.clear()
    transcript.resolve({"par.*": ["parcels"]})
    assert transcript.lines == ["> patterns are resolved"]
    transcript.bench.run(RegexResolved("no such group", {}))


def test_names_and_pattern_together() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "parcels", regex="ord.*")
    a.join()
    transcript.resolve({"ord.*": ["orders", "parcels"]})
    transcript.bench.advance(1_000)
    a.heartbeat()
    assert transcript.lines[-1] == "a at 3 has orders:0,1,2,3 parcels:0,1"


def test_patterns_are_loaded_from_the_log() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", regex="ord.*")
    a.join()
    transcript.resolve({"ord.*": ["orders"]})
    a.heartbeat()
    transcript.reload()
    a.heartbeat()
    assert transcript.lines[-1] == "a at 2"
    assert transcript.bench.shard.state.groups["g"].subscribes_to("orders")
    assert transcript.bench.queries == []


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
    with pytest.raises(KafkaError, match="is not an RE2 regular expression") as caught:
        check_pattern(pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_hostile_pattern_takes_linear_time() -> None:
    # A backtracking matcher would never finish.
    assert matching_topics("(a*)*(a*)*(a*)*b", ["a" * 249]) == ()


def test_wall_clock_set_back_does_not_delay_patterns() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", regex="ord.*"), Consumer(transcript, "b", regex="par.*")
    a.join()
    transcript.resolve({"ord.*": ["orders"]})
    transcript.bench.advance(10_001)
    transcript.bench.wall_shift_ms = -3_600_000
    b.join()
    transcript.resolve({"ord.*": ["orders"], "par.*": ["parcels"]})
    assert "16 par.* parcels" in transcript.lines


def test_query_of_a_deleted_group_does_not_delay_its_successor() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", regex="ord.*"), Consumer(transcript, "b", regex="ord.*")
    a.join()
    a.leave()
    transcript.bench.call(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
    transcript.resolve({"ord.*": ["orders"]})
    b.join()
    transcript.resolve({"ord.*": ["orders"]})
    assert "16 ord.* orders" in transcript.lines
