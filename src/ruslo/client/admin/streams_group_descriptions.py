"""A streams group (KIP-1071) as its coordinator describes it: topology, members and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.client.admin.group_descriptions import STREAMS, GroupDescription, GroupMember, shown_host
from ruslo.client.admin.topology_description import DescribedNodes, described_nodes
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages import streams_group_describe_response as streams


class Task(NamedTuple):
    """A partition of a subtopology."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True, slots=True)
class Tasks:
    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    warmup: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    changelog_topics: tuple[str, ...]

    @property
    def input_topics(self) -> tuple[str, ...]:
        """The topics that its tasks read; partition n of each belongs to task n."""
        return tuple(sorted({*self.source_topics, *self.repartition_source_topics}))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember(GroupMember):
    process_id: str
    """The process of a member: the threads of one Kafka Streams instance share it."""
    endpoint: str | None
    """HOST:PORT of interactive queries (application.server); None if the instance does not serve them."""
    topology_epoch: int
    is_classic: bool
    tasks: Tasks
    target_tasks: Tasks
    client_tags: Mapping[str, str]
    task_offsets: Mapping[Task, int]
    """How far each task has restored its state, if members report it."""
    task_end_offsets: Mapping[Task, int]

    @property
    def thread(self) -> str:
        """``StreamThread-1`` of a client id like ``APPLICATION-PROCESS-StreamThread-1-consumer``."""
        return self.client_id.partition(f"{self.process_id}-")[2].removesuffix("-consumer") or self.client_id


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescription(GroupDescription):
    topology_epoch: int | None
    """None before the first member has sent its topology."""
    subtopologies: tuple[Subtopology, ...]
    members: tuple[StreamsMember, ...]
    described: DescribedNodes = field(default_factory=dict)
    """The processors of each subtopology, if the application has described them."""


def from_streams(group: streams.DescribedGroup, coordinator_id: int) -> StreamsGroupDescription:
    topology = group.topology
    subtopologies = tuple(
        _subtopology(each) for each in (topology.subtopologies or () if topology is not None else ())
    )
    inputs = {each.subtopology_id: each.input_topics for each in subtopologies}
    return StreamsGroupDescription(
        group.group_id,
        STREAMS,
        group.group_state,
        STREAMS,
        group.assignor_name,
        coordinator_id,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(
            _member(member, inputs) for member in sorted(group.members, key=lambda member: member.member_id)
        ),
        topology_epoch=None if topology is None else topology.epoch,
        subtopologies=subtopologies,
        described=described_nodes(group.topology_description),
    )


def _subtopology(found: streams.Subtopology) -> Subtopology:
    return Subtopology(
        found.subtopology_id,
        tuple(sorted(found.source_topics)),
        tuple(sorted(found.repartition_sink_topics)),
        tuple(sorted(topic.name for topic in found.repartition_source_topics)),
        tuple(sorted(topic.name for topic in found.state_changelog_topics)),
    )


def _member(member: streams.Member, inputs: Mapping[str, Sequence[str]]) -> StreamsMember:
    tasks, target = _tasks(member.assignment), _tasks(member.target_assignment)

    def partitions(of: Tasks) -> tuple[TopicPartition, ...]:
        return tuple(
            sorted(
                TopicPartition(topic, task.partition)
                for task in of.active
                for topic in inputs.get(task.subtopology, ())
            )
        )

    endpoint = member.user_endpoint
    return StreamsMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        shown_host(member.client_host),
        STREAMS,
        partitions(tasks),
        tuple(sorted({topic for topics in inputs.values() for topic in topics})),
        partitions(target),
        rack_id=member.rack_id,
        epoch=member.member_epoch,
        process_id=member.process_id,
        endpoint=None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        topology_epoch=member.topology_epoch,
        is_classic=member.is_classic,
        tasks=tasks,
        target_tasks=target,
        client_tags={tag.key: tag.value for tag in member.client_tags},
        task_offsets=_offsets(member.task_offsets),
        task_end_offsets=_offsets(member.task_end_offsets),
    )


def _tasks(assignment: streams.Assignment) -> Tasks:
    return Tasks(
        _task_list(assignment.active_tasks),
        _task_list(assignment.standby_tasks),
        _task_list(assignment.warmup_tasks),
    )


def _task_list(found: Iterable[streams.TaskIds]) -> tuple[Task, ...]:
    return tuple(sorted(Task(each.subtopology_id, number) for each in found for number in each.partitions))


def _offsets(found: Iterable[streams.TaskOffset]) -> dict[Task, int]:
    return {Task(each.subtopology_id, each.partition): each.offset for each in found}
