"""Warm-up tasks: a new assignment is computed when they have caught up."""

from __future__ import annotations

from ruslo.machines.groups.streams.settings import GroupSetting
from ruslo.protocol.messages.streams_group_heartbeat_request import TaskOffset
from tests.support.groups.streams_transcript import NO_DELAY, READY, StreamsTranscript, StreamThread

HIGHLY_AVAILABLE = NO_DELAY._replace(
    assignors=("highly_available",), acceptable_recovery_lag=GroupSetting(100)
)


def offsets(offset: int, *partitions: int) -> list[TaskOffset]:
    return [TaskOffset(subtopology_id="1", partition=each, offset=offset) for each in partitions]


def two_threads(version: int) -> tuple[StreamsTranscript, StreamThread, StreamThread]:
    """``a`` has all tasks and ``b`` has joined; the transcript is empty."""
    transcript = StreamsTranscript(HIGHLY_AVAILABLE, topics=READY)
    a, b = StreamThread(transcript, "a", version=version), StreamThread(transcript, "b", version=version)
    a.join()
    a.report_tasks()
    b.join()
    a.heartbeat()
    a.report_tasks()
    b.heartbeat()
    transcript.lines.clear()
    return transcript, a, b


def test_a_warmup_task_becomes_active_when_it_has_caught_up() -> None:
    transcript, a, b = two_threads(version=1)
    b.report_offsets(offsets(0, 2, 3), offsets(5_000, 2, 3))
    b.report_offsets(offsets(4_950, 2), offsets(5_000, 2, 3))
    a.heartbeat()
    a.report_tasks("reports the revocation")
    b.report_tasks("reports the revocation")
    b.heartbeat()
    assert transcript.text == (
        """\
> b reports offsets
b at 3
> b reports offsets
17 epoch 4 validated 0
21 a active 0:3 1:0,1,3
21 b active 0:0,1,2 1:2 warmup 1:3
20 epoch 4
22 b epoch 3 ← 3 unrevoked active 0:0@3,1@3,2@3 warmup 1:3 revoke active 0:3@3 warmup 1:2
b at 3 has active 0:0,1,2 warmup 1:3
> a sends a heartbeat
22 a epoch 3 ← 3 unrevoked active 1:0@2,1@2,3@2 revoke active 1:2@2
a at 3 has active 1:0,1,3
> a reports the revocation
22 a epoch 4 ← 3 unreleased active 1:0@2,1@2,3@2
a at 4
> b reports the revocation
22 b epoch 4 ← 3 unreleased active 0:0@3,1@3,2@3 warmup 1:3
b at 4
> b sends a heartbeat
22 b epoch 4 ← 4 stable active 0:0@3,1@3,2@3 1:2@4 warmup 1:3
b at 4 has active 0:0,1,2 1:2 warmup 1:3
"""
    )


def test_standby_tasks_that_catch_up_need_no_new_assignment_with_sticky() -> None:
    transcript = StreamsTranscript(NO_DELAY._replace(num_standby_replicas=GroupSetting(1)), topics=READY)
    a, b = StreamThread(transcript, "a", version=1), StreamThread(transcript, "b", version=1)
    a.join()
    b.join()
    for each in (a, a, b, b, a, b):
        each.report_tasks()
    epoch = b.epoch
    assert b.standby
    b.report_offsets(offsets(10, 0, 1, 2, 3), offsets(10, 0, 1, 2, 3))
    a.heartbeat()
    assert (a.epoch, b.epoch) == (epoch, epoch)


def test_members_that_cannot_report_get_no_warmup_tasks() -> None:
    _, _, b = two_threads(version=0)
    assert not b.warmup
    assert ("1", 2) in b.tasks


def test_after_a_load_members_are_assumed_to_report() -> None:
    transcript, _, b = two_threads(version=1)
    assert b.warmup
    transcript.bench.reload()
    c = StreamThread(transcript, "c", version=1)
    c.join()
    b.heartbeat()
    assert ("1", 2) not in b.tasks | c.tasks
