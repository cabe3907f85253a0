from __future__ import annotations

from dataclasses import replace

from ruslo.client.admin.streams_group_descriptions import (
    StreamsGroupDescription,
    StreamsMember,
    Subtopology,
    Task,
    Tasks,
)
from ruslo.client.views.streams_group_view import shown_tasks, streams_members_json, task_rows
from ruslo.model.topics import TopicPartition

JOIN = Subtopology("0", ("left", "right"), (), (), ())
COUNT = Subtopology("1", (), (), ("by-key",), ("counts",))


def member(name: str, tasks: Tasks) -> StreamsMember:
    return StreamsMember(
        name,
        None,
        name,
        "127.0.0.1",
        "streams",
        (),
        (),
        process_id=name,
        endpoint=None,
        topology_epoch=0,
        is_classic=False,
        tasks=tasks,
        target_tasks=Tasks(),
        client_tags={},
        task_offsets={},
        task_end_offsets={},
    )


A = member("a", Tasks((Task("0", 0), Task("1", 0)), (Task("1", 1),)))
B = member("b", Tasks((Task("1", 1),), (), (Task("1", 0),)))
GROUP = StreamsGroupDescription(
    "app",
    "streams",
    "Stable",
    "streams",
    None,
    1,
    members=(A, B),
    topology_epoch=0,
    subtopologies=(JOIN, COUNT),
)


def test_a_task_has_its_members_and_the_lag_of_all_its_topics() -> None:
    lags = {TopicPartition("left", 0): 2, TopicPartition("right", 0): 3, TopicPartition("by-key", 1): None}
    rows = {str(row.task): row for row in task_rows(GROUP, lags)}
    assert list(rows) == ["0_0", "1_0", "1_1"]
    assert (rows["0_0"].lag, rows["0_0"].active) == (5, A)
    assert (rows["1_0"].lag, rows["1_0"].warmup) == (None, (B,))
    assert (rows["1_1"].active, rows["1_1"].standby) == (B, (A,))


def test_tasks_that_no_member_runs_are_known_by_their_offsets() -> None:
    idle = replace(GROUP, members=())
    (row,) = task_rows(idle, {TopicPartition("left", 4): 7, TopicPartition("unknown", 0): 1})
    assert (str(row.task), row.active, row.lag) == ("0_4", None, 7)


def test_json_and_text_of_tasks() -> None:
    first = streams_members_json(GROUP)["members"]
    assert isinstance(first, list)
    assert first[0]["tasks"] == {"active": ["0_0", "1_0"], "standby": ["1_1"], "warmup": []}
    assert shown_tasks(A.tasks.active) == "0_0 1_0"
