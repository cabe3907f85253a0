"""The states of share-partitions: when they are initialized, and what happens if that fails."""

from __future__ import annotations

from ruslo.machines.groups.share.events import ShareStateInitialized
from ruslo.model.errors import ErrorCode
from tests.support.groups.group_bench import GroupBench, Topics
from tests.support.groups.share_transcript import ShareConsumer, ShareTranscript


def joined(*topics: str, bench: GroupBench | None = None) -> tuple[ShareTranscript, ShareConsumer]:
    transcript = ShareTranscript(bench or GroupBench(topics=Topics({"orders": 2, "parcels": 1})))
    member = ShareConsumer(transcript, "a", *topics)
    member.join()
    return transcript, member


def test_failed_partitions_are_initialized_again_by_the_next_heartbeat() -> None:
    transcript, a = joined("orders")
    transcript.lines.clear()
    transcript.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, orders=[1])
    transcript.wait(1_000)
    a.heartbeat()
    transcript.answer()
    assert transcript.text == (
        """\
> the share coordinator responds COORDINATOR_NOT_AVAILABLE
15 initialized orders:0
> 1 s pass
> a sends a heartbeat
11 epoch 3
13 a orders:0
12 epoch 3
14 a epoch 3 ← 2 orders:0
15 initializing orders:1 initialized orders:0
initialize orders:1 at 3
a at 3 has orders:0
> the share coordinator responds
15 initialized orders:0,1
"""
    )


def test_partitions_without_a_result_are_initialized_again_after_30_s() -> None:
    transcript, a = joined("orders")
    transcript.wait(29_999)
    a.heartbeat()
    assert len(transcript.bench.queries) == 1
    transcript.wait(1)
    a.heartbeat()
    assert len(transcript.bench.queries) == 2
    transcript.lines.clear()
    transcript.answer()
    assert transcript.lines == ["> the share coordinator responds", "15 initialized orders:0,1"]


def test_a_new_coordinator_waits_for_the_request_of_the_former_one() -> None:
    transcript, a = joined("orders")
    transcript.bench.queries.clear()
    transcript.reload()
    transcript.wait(29_999)
    a.heartbeat()
    assert transcript.bench.queries == []
    transcript.wait(1)
    a.heartbeat()
    assert len(transcript.bench.queries) == 1


def test_nothing_is_requested_before_the_record_is_committed() -> None:
    bench = GroupBench()
    bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
    _, a = joined("orders", bench=bench)
    assert bench.queries == []
    # The record may be committed later. The next heartbeat writes it again, and then sends the request.
    a.join()
    assert len(bench.queries) == 1


def test_new_partitions_and_topics_are_initialized_while_members_keep_theirs() -> None:
    transcript, a = joined("orders", "later")
    transcript.answer()
    transcript.wait(1_000)
    a.heartbeat()
    transcript.lines.clear()
    transcript.change_topics("topics are created", Topics({"orders": 3, "parcels": 1, "later": 1}, 1))
    transcript.wait(1_000)
    a.heartbeat()
    transcript.answer()
    transcript.wait(1_000)
    a.heartbeat()
    assert transcript.text == (
        """\
> topics are created
> 1 s pass
> a sends a heartbeat
11 epoch 4
12 epoch 4
14 a epoch 4 ← 3 orders:0,1
15 initializing later:0 orders:2 initialized orders:0,1
initialize later:0 orders:2 at 4
a at 4
> the share coordinator responds
15 initialized later:0 orders:0,1,2
> 1 s pass
> a sends a heartbeat
11 epoch 5
13 a later:0 orders:0,1,2
12 epoch 5
14 a epoch 5 ← 4 later:0 orders:0,1,2
a at 5 has later:0 orders:0,1,2
"""
    )


def test_a_deleted_topic_is_forgotten_even_while_it_is_initializing() -> None:
    transcript, a = joined("orders", "parcels")
    transcript.lines.clear()
    transcript.change_topics("orders is deleted", transcript.bench.topics.without("orders"), ["orders"])
    transcript.answer()
    a.heartbeat()
    assert transcript.text == (
        """\
> orders is deleted
15 initializing parcels:0
> the share coordinator responds
15 initialized parcels:0
> a sends a heartbeat
11 epoch 3
a at 2
"""
    )


def test_a_recreated_topic_is_initialized_as_a_new_one() -> None:
    transcript, a = joined("orders")
    transcript.answer()
    transcript.wait(1_000)
    a.heartbeat()
    transcript.lines.clear()
    transcript.change_topics("orders is recreated", Topics({"orders": 1}, 1, first_id=2_000), ["orders"])
    transcript.wait(1_000)
    a.heartbeat()
    assert transcript.text == (
        """\
> orders is recreated
15 nothing
> 1 s pass
> a sends a heartbeat
11 epoch 4
13 a
12 epoch 4
14 a epoch 4 ← 3
15 initializing orders:0
initialize orders:0 at 4
a at 4 has nothing
"""
    )


def test_results_of_a_deleted_group_are_ignored() -> None:
    bench = GroupBench()
    event = ShareStateInitialized("g", {bench.topic_id("orders"): {0: ErrorCode.NONE}})
    bench.run(event)
    assert bench.log == []


def test_a_late_result_of_an_earlier_request_changes_nothing() -> None:
    transcript, _ = joined("orders")
    orders = transcript.bench.topic_id("orders")
    transcript.answer()
    written = len(transcript.bench.log)
    transcript.bench.run(
        ShareStateInitialized("g", {orders: {0: ErrorCode.FENCED_STATE_EPOCH, 7: ErrorCode.NONE}})
    )
    assert len(transcript.bench.log) == written
