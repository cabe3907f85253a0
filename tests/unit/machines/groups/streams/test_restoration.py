"""What members report about restored state, and when it matters to the assignment."""

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


def test_standby_task_that_has_caught_up_becomes_active() -> None:
    """The new process restores the standby task of the process that keeps the active task for now."""
    settings = HIGHLY_AVAILABLE._replace(num_standby_replicas=GroupSetting(1))
    transcript = StreamsTranscript(settings, topics=READY)
    a, b = StreamThread(transcript, "a", version=1), StreamThread(transcript, "b", version=1)
    a.join()
    b.join()
    for each in (a, a, b, b):
        each.report_tasks()
    assert not [each for each in b.active if each.subtopology_id == "1"]
    assert b.standby[0].partitions == [0, 1, 2, 3]
    epoch = b.epoch
    b.report_offsets(offsets(5_000, 2, 3), offsets(5_000, 2, 3))
    for each in (a, a, b, b, b):
        each.report_tasks()
    assert b.epoch == epoch + 1
    assert {("1", 2), ("1", 3)} <= b.tasks


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
