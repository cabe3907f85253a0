"""A streams group: its topology, its tasks with their lag, and its members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.streams_group_descriptions import (
    StreamsGroupDescription,
    StreamsMember,
    Subtopology,
    Task,
    Tasks,
)
from ruslo.client.views.group_view import GroupView, coordinator_address, head_json, partition_rows
from ruslo.client.wire.coordinators import value_of
from ruslo.model.topics import TopicPartition
from ruslo.model.units import sum_known


@dataclass(frozen=True, slots=True)
class TaskRow:
    task: Task
    active: StreamsMember | None
    """None while no member runs the task."""
    standby: tuple[StreamsMember, ...]
    warmup: tuple[StreamsMember, ...]
    lag: int | None
    """The lag of the committed offsets in the input partitions of the task."""

    def as_json(self) -> dict[str, object]:
        return {
            "task": str(self.task),
            "subtopology": self.task.subtopology,
            "partition": self.task.partition,
            "active": None if self.active is None else self.active.member_id,
            "standby": [member.member_id for member in self.standby],
            "warmup": [member.member_id for member in self.warmup],
            "lag": self.lag,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupView(GroupView):
    description: StreamsGroupDescription
    tasks: tuple[TaskRow, ...]

    def as_json(self) -> dict[str, object]:
        return {
            **streams_members_json(self.description),
            "lag": self.lag,
            "lag_seconds": self.lag_seconds,
            "topology_epoch": self.description.topology_epoch,
            "subtopologies": [_subtopology_json(each) for each in self.description.subtopologies],
            "tasks": [row.as_json() for row in self.tasks],
            "partitions": [asdict(row) for row in self.partitions],
        }


async def describe_streams_group(admin: Admin, group_id: str) -> StreamsGroupView:
    return await streams_view_of(admin, value_of((await admin.streams_groups.describe([group_id]))[group_id]))


async def streams_view_of(admin: Admin, description: StreamsGroupDescription) -> StreamsGroupView:
    partitions = await partition_rows(admin, description)
    return StreamsGroupView(
        description=description,
        coordinator_address=await coordinator_address(admin, description),
        assignor_error=None,
        partitions=partitions,
        tasks=task_rows(
            description, {TopicPartition(row.topic, row.partition): row.lag for row in partitions}
        ),
    )


def task_rows(
    group: StreamsGroupDescription, lags: Mapping[TopicPartition, int | None]
) -> tuple[TaskRow, ...]:
    """The tasks that are assigned or whose input partitions have a lag, in order."""
    active: dict[Task, StreamsMember] = {}
    standby: dict[Task, list[StreamsMember]] = {}
    warmup: dict[Task, list[StreamsMember]] = {}
    for member in group.members:
        active |= dict.fromkeys(member.tasks.active, member)
        for task in member.tasks.standby:
            standby.setdefault(task, []).append(member)
        for task in member.tasks.warmup:
            warmup.setdefault(task, []).append(member)
    readers = {topic: each.subtopology_id for each in group.subtopologies for topic in each.input_topics}
    known = {Task(readers[tp.topic], tp.partition) for tp in lags if tp.topic in readers}
    inputs = {each.subtopology_id: each.input_topics for each in group.subtopologies}
    return tuple(
        TaskRow(
            task,
            active.get(task),
            tuple(standby.get(task, ())),
            tuple(warmup.get(task, ())),
            sum_known(
                lags.get(TopicPartition(topic, task.partition)) for topic in inputs.get(task.subtopology, ())
            ),
        )
        for task in sorted({*active, *standby, *warmup, *known})
    )


def streams_members_json(group: StreamsGroupDescription) -> dict[str, object]:
    return {
        **head_json(group),
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "epoch": member.epoch,
                "topology_epoch": member.topology_epoch,
                "process_id": member.process_id,
                "endpoint": member.endpoint,
                "is_classic": member.is_classic,
                "client_tags": dict(member.client_tags),
                "tasks": _tasks_json(member.tasks),
                "target_tasks": _tasks_json(member.target_tasks),
            }
            for member in group.members
        ],
    }


def shown_tasks(tasks: Iterable[Task]) -> str:
    """Tasks in Kafka's notation: ``0_0 0_2 1_0``."""
    return " ".join(map(str, tasks))


def _tasks_json(tasks: Tasks) -> dict[str, list[str]]:
    return {
        "active": [str(task) for task in tasks.active],
        "standby": [str(task) for task in tasks.standby],
        "warmup": [str(task) for task in tasks.warmup],
    }


def _subtopology_json(found: Subtopology) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(found).items()}
