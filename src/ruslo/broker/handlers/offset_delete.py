"""OffsetDelete v0 (KIP-496): deletes offsets of topics that no member of the group subscribes to."""

from __future__ import annotations

from ruslo.broker.handlers.allowed_resources import split_topics, then
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ruslo.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(services: Services, request: OffsetDeleteRequest, context: RequestContext) -> Response:
    context.require(Operation.DELETE, ResourceType.GROUP, request.group_id)
    allowed, denied = split_topics(context, Operation.READ, request.topics, lambda topic: topic.name)
    if not denied:
        return services.groups.submit(request.group_id, request, context)
    refused = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for each in topic.partitions
            ],
        )
        for topic in denied
    ]
    accepted = OffsetDeleteRequest(group_id=request.group_id, topics=allowed)

    def complete(response: OffsetDeleteResponse) -> None:
        # An error of the group is the whole response.
        if not response.error_code:
            response.topics += refused

    return then(services.groups.submit(request.group_id, accepted, context), complete)
