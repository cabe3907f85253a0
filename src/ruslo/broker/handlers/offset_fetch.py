"""OffsetFetch v1-10: the committed offsets of groups. Null topics request all topics with offsets.

v5: leader epochs (KIP-320). v7: RequireStable (KIP-447). v8: several groups (KIP-709). v9: member id and
epoch of the new protocol (KIP-848). v10: topic ids (KIP-516).

The client needs DESCRIBE on the group and on the topics. Topics that it names are errors without it, others
stay hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeAlias

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.allowed_resources import split_topics, then
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.access import OPEN
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ruslo.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

BATCHED_MIN_VERSION = 8
NO_OFFSET = -1


def handle(services: Services, request: OffsetFetchRequest, context: RequestContext) -> Response:
    if context.access is OPEN:
        return _submit(services, request, context)
    if context.api_version < BATCHED_MIN_VERSION:
        return _fetch_visible(services, request, context)
    return _fetch_visible_groups(services, request, context)


def _submit(services: Services, request: OffsetFetchRequest, context: RequestContext) -> Response:
    if context.api_version < BATCHED_MIN_VERSION:
        return services.groups.submit(request.group_id, request, context)
    if len(request.groups) == 1:
        return services.groups.submit(request.groups[0].group_id, request, context)
    return _fetch_each(services, request, context)


async def _fetch_each(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    groups = services.groups
    parts = by_partition(groups, request.groups, _group_id)
    responses = await all_responses(
        [
            groups.submit_to(
                partition, OffsetFetchRequest(groups=part, require_stable=request.require_stable), context
            )
            for partition, part in parts.items()
        ],
        OffsetFetchResponse,
    )
    return OffsetFetchResponse(groups=[group for response in responses for group in response.groups])


def _group_id(group: OffsetFetchRequestGroup) -> str:
    return group.group_id


# -- with an authorizer --------------------------------------------------------------------------------------


# Before v8 the request itself names the group and its topics, later each of its groups does: the fields are
# the same.
_Query: TypeAlias = Any
_Hide: TypeAlias = Callable[[Any], None]


def _fetch_visible(services: Services, request: OffsetFetchRequest, context: RequestContext) -> Response:
    context.require(Operation.DESCRIBE, ResourceType.GROUP, request.group_id)
    visible, hide = _visible(services, request, context)
    return then(_submit(services, visible, context), hide)


def _fetch_visible_groups(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> Response:
    queries: dict[str, tuple[OffsetFetchRequestGroup, _Hide]] = {}
    refused: list[OffsetFetchResponseGroup] = []
    for group in request.groups:
        if context.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            queries[group.group_id] = _visible(services, group, context)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            refused.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
    if not queries:
        return OffsetFetchResponse(groups=refused)

    def complete(response: OffsetFetchResponse) -> None:
        for result in response.groups:
            _, hide = queries[result.group_id]
            hide(result)
        response.groups += refused

    visible = copy(request)
    visible.groups = [group for group, _ in queries.values()]
    return then(_submit(services, visible, context), complete)


def _visible(services: Services, query: _Query, context: RequestContext) -> tuple[_Query, _Hide]:
    """The query with the topics that the client may see, and what completes its result."""
    name_of = services.metadata.image.topics.name_of

    def topic_name(topic: Any) -> str | None:
        return topic.name or name_of(getattr(topic, "topic_id", ZERO_UUID))

    def hide(result: Any) -> None:
        result.topics = split_topics(context, Operation.DESCRIBE, result.topics, topic_name)[0]

    if query.topics is None:
        return query, hide
    allowed, denied = split_topics(context, Operation.DESCRIBE, query.topics, topic_name)

    def refuse(result: Any) -> None:
        if not result.error_code:
            result.topics += _refused(denied)

    visible = copy(query)
    visible.topics = allowed
    return visible, refuse


def _refused(topics: Sequence[Any]) -> list[OffsetFetchResponseTopic | OffsetFetchResponseTopics]:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    results: list[OffsetFetchResponseTopic | OffsetFetchResponseTopics] = []
    for topic in topics:
        indexes = topic.partition_indexes
        if hasattr(topic, "topic_id"):
            named = [
                OffsetFetchResponsePartitions(partition_index=at, committed_offset=NO_OFFSET, error_code=code)
                for at in indexes
            ]
            results.append(
                OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=named)
            )
        else:
            partitions = [
                OffsetFetchResponsePartition(partition_index=at, committed_offset=NO_OFFSET, error_code=code)
                for at in indexes
            ]
            results.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return results
