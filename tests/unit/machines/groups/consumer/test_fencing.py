"""Sessions, rebalance timeouts and static members: which members are fenced, and when."""

from __future__ import annotations

from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.errors import ErrorCode
from tests.support.groups.consumer_transcript import REBALANCE_TIMEOUT_MS, Consumer, Transcript
from tests.support.groups.group_bench import GroupBench


def test_silent_member_is_fenced_after_its_session() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders")
    a.join()
    transcript.bench.advance(44_999)
    a.heartbeat()
    transcript.bench.advance(44_999)
    transcript.lines.clear()
    transcript.wait(1)
    a.heartbeat()
    a.join("joins again")
    assert transcript.text == (
        """\
> 0.001 s pass
x8 a
x7 a
x5 a
3 epoch 3
> a sends a heartbeat
a: UNKNOWN_MEMBER_ID
> a joins again orders
5 a orders
3 epoch 4
7 a orders:0,1,2,3
6 epoch 4
8 a epoch 4 ← 0 stable orders:0@4,1@4,2@4,3@4
a at 4 has orders:0,1,2,3
"""
    )


def test_group_may_have_its_own_session_timeout() -> None:
    overrides = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    transcript = Transcript(GroupBench(GroupSettings(group_overrides=lambda group_id: overrides)))
    a = Consumer(transcript, "a", "orders")
    assert a.join().heartbeat_interval_ms == 7_000
    transcript.bench.advance(49_999)
    assert a.heartbeat().error_code == ErrorCode.NONE
    transcript.bench.advance(50_000)
    assert a.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_does_not_revoke_is_fenced_after_its_rebalance_timeout() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    transcript.bench.advance(1_000)
    b.join()
    a.heartbeat()
    for _ in range(2):
        transcript.bench.advance(REBALANCE_TIMEOUT_MS // 2 - 1)
        a.heartbeat("sends a heartbeat and keeps all partitions")
        b.heartbeat()
    transcript.lines.clear()
    transcript.wait(2)
    a.heartbeat()
    transcript.bench.advance(1_000)
    b.heartbeat()
    assert transcript.text == (
        """\
> 0.002 s pass
x8 a
x7 a
x5 a
3 epoch 4
> a sends a heartbeat
a: UNKNOWN_MEMBER_ID
> b sends a heartbeat
7 b orders:0,1,2,3
6 epoch 4
8 b epoch 4 ← 3 stable orders:0@4,1@4,2@4,3@4
b at 4 has orders:0,1,2,3
"""
    )


def test_rebalance_timeout_ends_with_the_revocation() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    transcript.bench.advance(1_000)
    b.join()
    a.heartbeat()
    a.report_owned("reports the revocation")
    for _ in range(3):
        transcript.bench.advance(30_000)
        a.heartbeat()
        b.heartbeat()
    assert transcript.lines[-4:] == ["> a sends a heartbeat", "a at 3", "> b sends a heartbeat", "b at 3"]


def test_static_member_rejoins_with_its_partitions() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", instance_id="i")
    b = Consumer(transcript, "b", "orders")
    a.join()
    transcript.bench.advance(1_000)
    b.join()
    a.heartbeat()
    a.report_owned("reports the revocation")
    b.heartbeat()
    transcript.lines.clear()

    a.leave(-2)
    b.heartbeat()
    a2 = Consumer(transcript, "a2", "orders", instance_id="i")
    a2.join()
    a2.heartbeat()
    a.epoch = 3
    a.heartbeat("sends another heartbeat")
    b.heartbeat()
    assert transcript.text == (
        """\
> a leaves with -2
8 a epoch -2 ← 2 stable orders:0@0,1@0
a at -2
> b sends a heartbeat
b at 3
> a2 joins orders
x8 a
x7 a
x5 a
5 a2 orders as i
7 a2 orders:0,1
8 a2 epoch 0 ← 0 stable orders:0@0,1@0
8 a2 epoch 3 ← 0 stable orders:0@0,1@0
a2 at 3 has orders:0,1
> a2 sends a heartbeat
a2 at 3
> a sends another heartbeat
a: FENCED_INSTANCE_ID
> b sends a heartbeat
b at 3
"""
    )


def test_static_member_that_does_not_rejoin_in_time_is_fenced() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", instance_id="i")
    a.join()
    transcript.bench.advance(40_000)
    a.leave(-2)
    transcript.lines.clear()
    transcript.wait(5_000)
    assert transcript.lines == ["> 5 s pass", "x8 a", "x7 a", "x5 a", "3 epoch 3"]


def test_static_member_may_leave_permanently() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", instance_id="i")
    a.join()
    a.leave(-1)
    assert transcript.lines[-6:] == ["> a leaves", "x8 a", "x7 a", "x5 a", "3 epoch 3", "a at -1"]


def test_instance_id_in_use_is_rejected() -> None:
    transcript = Transcript()
    Consumer(transcript, "a", "orders", instance_id="i").join()
    other = Consumer(transcript, "other", "orders", instance_id="i")
    assert other.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    other.epoch = 2
    assert other.heartbeat().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert other.leave(-2).error_code == ErrorCode.FENCED_INSTANCE_ID
    unknown = Consumer(transcript, "unknown", "orders", instance_id="unheard of")
    unknown.epoch = 2
    assert unknown.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_rejoins_with_another_subscription() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", instance_id="i")
    a.join()
    a.leave(-2)
    transcript.bench.advance(1_000)
    transcript.lines.clear()
    Consumer(transcript, "a2", "parcels", instance_id="i").join()
    assert transcript.text == (
        """\
> a2 joins parcels
x8 a
x7 a
x5 a
5 a2 orders as i
7 a2 orders:0,1,2,3
8 a2 epoch 0 ← 0 stable orders:0@0,1@0,2@0,3@0
5 a2 parcels as i
3 epoch 3
7 a2 parcels:0,1
6 epoch 3
8 a2 epoch 3 ← 0 stable parcels:0@3,1@3
a2 at 3 has parcels:0,1
"""
    )


def test_members_get_a_full_session_when_the_coordinator_moves() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    transcript.bench.advance(1_000)
    b.join()
    a.heartbeat()
    transcript.bench.advance(40_000)
    transcript.reload()
    transcript.bench.advance(44_999)
    a.heartbeat()
    b.heartbeat()
    transcript.lines.clear()
    # The revocation timeout started again too, and has expired now.
    transcript.wait(15_001)
    a.heartbeat()
    b.heartbeat()
    assert transcript.lines[1:5] == ["x8 a", "x7 a", "x5 a", "3 epoch 4"]
    assert transcript.lines[5:7] == ["> a sends a heartbeat", "a: UNKNOWN_MEMBER_ID"]
    assert transcript.lines[-1] == "b at 4 has orders:0,1,2,3"
