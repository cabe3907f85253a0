"""StreamsGroupDescribe v0-1 (KIP-1071): state, epochs, topology, members and tasks of streams groups.

v1: the topology description (KIP-1331) and the assignor (KIP-1357).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.allowed_resources import split_groups
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.access import OPEN
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
    Topology,
)


async def handle(
    services: Services, request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    groups = services.groups
    allowed, denied = split_groups(context, Operation.DESCRIBE, request.group_ids)
    answers = await all_responses(
        [
            groups.submit_to(partition, _part(request, group_ids), context)
            for partition, group_ids in by_partition(groups, allowed, str).items()
        ],
        StreamsGroupDescribeResponse,
    )
    described = [_visible(group, context) for answer in answers for group in answer.groups]
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = context.authorized_operations(
                    ResourceType.GROUP, group.group_id
                )
    described += [
        DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED) for each in denied
    ]
    return StreamsGroupDescribeResponse(groups=described)


def _part(request: StreamsGroupDescribeRequest, group_ids: list[str]) -> StreamsGroupDescribeRequest:
    part = copy(request)
    part.group_ids = group_ids
    return part


def _visible(group: DescribedGroup, context: RequestContext) -> DescribedGroup:
    """The group, unless its topology has topics that the client may not describe."""
    if context.access is OPEN or group.topology is None:
        return group
    if all(context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in _topics(group.topology)):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has topics that the client is not authorized to describe",
    )


def _topics(topology: Topology) -> Iterator[str]:
    for each in topology.subtopologies or ():
        yield from each.source_topics
        yield from each.repartition_sink_topics
        yield from (topic.name for topic in each.repartition_source_topics)
        yield from (topic.name for topic in each.state_changelog_topics)
