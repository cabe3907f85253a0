"""The source partitions of each member's tasks, by which applications find the state of a key.

Members with a user endpoint share them with the whole group (interactive queries).
"""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.assignors.streams.model import TaskId
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import StreamsMember, UserEndpoint
from ruslo.machines.groups.streams.tasks import by_subtopology
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.protocol.messages.streams_group_heartbeat_response import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def endpoint_partitions(
    group: StreamsGroup, current: StreamsMember, view: TopicsView
) -> list[EndpointToPartitions]:
    """An entry for each member with an endpoint. ``current`` replaces the group's member of its id."""
    others = (member for member in group.members.values() if member.member_id != current.member_id)
    return [
        _partitions(group, member, member.endpoint, view)
        for member in (*others, current)
        if member.endpoint is not None
    ]


def _partitions(
    group: StreamsGroup, member: StreamsMember, endpoint: UserEndpoint, view: TopicsView
) -> EndpointToPartitions:
    known = group.endpoint_partitions.get(member.member_id)
    if known is None:
        assigned = member.assigned
        known = group.endpoint_partitions[member.member_id] = EndpointToPartitions(
            user_endpoint=Endpoint(host=endpoint.host, port=endpoint.port),
            active_partitions=_source_partitions(group, assigned.active, view),
            standby_partitions=_source_partitions(group, assigned.standby | assigned.warmup, view),
        )
    return known


def _source_partitions(
    group: StreamsGroup, tasks: Iterable[TaskId], view: TopicsView
) -> list[TopicPartition]:
    configured = {} if group.configured is None else group.configured.subtopologies
    result = []
    for subtopology_id, partitions in by_subtopology(tasks).items():
        subtopology = configured.get(subtopology_id)
        if subtopology is None:
            continue
        for name in (*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_sources)):
            topic = view.by_name(name)
            if topic is not None:
                existing = [partition for partition in partitions if partition < topic.partition_count]
                result.append(TopicPartition(topic=name, partitions=existing))
    return result
