"""DescribeShareGroupOffsets v0-1 (KIP-932): start offsets of share groups. v1: the lag (KIP-1226)."""

from __future__ import annotations

import asyncio

from ruslo.broker.handlers.allowed_resources import split_topics
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


async def handle(
    services: Services, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    groups = await asyncio.gather(*(_described(services, group, context) for group in request.groups))
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _described(
    services: Services, group: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
        services.groups.require_share_groups()
        if group.topics is None:
            return await _all_topics(services, group.group_id, context)
        return await _named_topics(services, group.group_id, group.topics, context)
    except KafkaError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group.group_id, error_code=error.code, error_message=error.message
        )


async def _all_topics(
    services: Services, group_id: str, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    """The initialized partitions of topics that the client may describe."""
    found = await services.share_offsets.initialized(group_id, context)
    visible, _ = split_topics(context, Operation.DESCRIBE, found, lambda topic: topic.topic_name)
    return await services.share_offsets.describe(group_id, visible)


async def _named_topics(
    services: Services,
    group_id: str,
    topics: list[DescribeShareGroupOffsetsRequestTopic],
    context: RequestContext,
) -> DescribeShareGroupOffsetsResponseGroup:
    allowed, denied = split_topics(context, Operation.DESCRIBE, topics, lambda topic: topic.topic_name)
    described = await services.share_offsets.describe(group_id, allowed)
    described.topics += [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                DescribeShareGroupOffsetsResponsePartition(
                    partition_index=index,
                    start_offset=-1,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                )
                for index in topic.partitions
            ],
        )
        for topic in denied
    ]
    return described
