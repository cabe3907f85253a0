"""StreamsGroupDescribe (KIP-1071). v1: the topology description (KIP-1331) and the assignor (KIP-1357)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from ruslo.machines.assignors.streams.model import MemberTasks, TaskId
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.group import STREAMS, not_found
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.configured_topology import ConfiguredTopology, InternalTopic
from ruslo.machines.groups.streams.group import NO_TARGET_TASKS, StreamsGroup, TaskOffsets
from ruslo.machines.groups.streams.member import StreamsMember
from ruslo.machines.groups.streams.response import DESCRIPTION_MIN_VERSION
from ruslo.machines.groups.streams.tasks import HeldTasks, by_subtopology
from ruslo.machines.groups.streams.topology import StreamsTopology
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages import streams_group_topology_value as recorded
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)


class DescriptionStatus(enum.IntEnum):
    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


def handle(
    shard: ShardState, request: StreamsGroupDescribeRequest, info: RequestInfo
) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(
        groups=[_group(shard, each, request, info) for each in request.group_ids]
    )


def _group(
    shard: ShardState, group_id: str, request: StreamsGroupDescribeRequest, info: RequestInfo
) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(
            group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID, error_message="The group id is empty"
        )
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=not_found(group_id, group, STREAMS),
        )
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
    )
    if info.api_version >= DESCRIPTION_MIN_VERSION:
        described.assignor_name = shard.settings.streams_config_of(group_id).assignor
        if request.include_topology_description:
            _add_description(group, described)
    return described


def _add_description(group: StreamsGroup, described: DescribedGroup) -> None:
    stored = group.description
    if stored is None or group.topology is None or stored[0] != group.topology.epoch:
        described.topology_description_status = DescriptionStatus.NOT_STORED
    else:
        described.topology_description_status = DescriptionStatus.AVAILABLE
        described.topology_description = stored[1]


def _topology(group: StreamsGroup) -> Topology | None:
    """The topology with the topics of the cluster if all exist, else as the members describe it."""
    if group.configured is not None and group.configured.is_ready:
        return _configured(group.configured)
    return None if group.topology is None else _unconfigured(group.topology)


def _configured(topology: ConfiguredTopology) -> Topology:
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology_id,
                source_topics=list(each.source_topics),
                repartition_sink_topics=list(each.repartition_sinks),
                state_changelog_topics=[_internal_topic(topic) for topic in each.changelogs],
                repartition_source_topics=[_internal_topic(topic) for topic in each.repartition_sources],
            )
            for subtopology_id, each in topology.subtopologies.items()
        ],
    )


def _internal_topic(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs.items()],
    )


def _unconfigured(topology: StreamsTopology) -> Topology:
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                state_changelog_topics=_recorded_topics(each.state_changelog_topics),
                repartition_source_topics=_recorded_topics(each.repartition_source_topics),
            )
            for subtopology_id, each in sorted(topology.subtopologies.items())
        ],
    )


def _recorded_topics(topics: Iterable[recorded.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda each: each.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint = member.endpoint
    reported = group.task_offsets.get(member.member_id) or TaskOffsets()
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        task_offsets=_offsets(reported.offsets),
        task_end_offsets=_offsets(reported.end_offsets),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target.get(member.member_id, NO_TARGET_TASKS)),
    )


def _assignment(tasks: HeldTasks | MemberTasks) -> Assignment:
    return Assignment(
        active_tasks=_tasks(tasks.active),
        standby_tasks=_tasks(tasks.standby),
        warmup_tasks=_tasks(tasks.warmup),
    )


def _tasks(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def _offsets(offsets: Mapping[TaskId, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=task.subtopology_id, partition=task.partition, offset=offset)
        for task, offset in sorted(offsets.items())
    ]
