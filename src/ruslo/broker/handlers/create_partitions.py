"""CreatePartitions v0-3: more partitions for existing topics. v2 is flexible, v3 the same (throttling)."""

from __future__ import annotations

from copy import copy

from ruslo.broker.handlers.allowed_resources import split_topics
from ruslo.broker.handlers.mutation_quota import MutationQuota
from ruslo.broker.handlers.services import ControllerServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ruslo.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

STRICT_QUOTA_FROM = 3


async def handle(
    services: ControllerServices, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    allowed, denied = split_topics(context, Operation.ALTER, request.topics, lambda topic: topic.name)
    quota = MutationQuota(services, context, strict_from=STRICT_QUOTA_FROM)
    throttled: list[str] = []
    accepted = copy(request)
    accepted.topics = []
    for topic in allowed:
        if quota.admits(_added(services, topic)):
            accepted.topics.append(topic)
        else:
            throttled.append(topic.name)
    response = await services.controller.submit(accepted, context, timeout_ms=request.timeout_ms)
    assert isinstance(response, CreatePartitionsResponse)
    error = quota.error()
    response.results += [
        CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
        for name in throttled
    ]
    response.throttle_time_ms = quota.throttle_ms
    response.results += [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None
        )
        for name in dict.fromkeys(topic.name for topic in denied)
    ]
    await services.metadata.wait_for(services.controller.committed_offset)
    return response


def _added(services: ControllerServices, topic: CreatePartitionsTopic) -> int:
    known = services.metadata.image.topics.by_name.get(topic.name)
    return max(topic.count - (0 if known is None else len(known.partitions)), 0)
