"""DeleteShareGroupOffsets v0 (KIP-932): removes topics from a share group that has no members."""

from __future__ import annotations

from ruslo.broker.handlers.allowed_resources import split_topics, then
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ruslo.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


def handle(services: Services, request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> Response:
    context.require(Operation.DELETE, ResourceType.GROUP, request.group_id)
    allowed, denied = split_topics(context, Operation.READ, request.topics, lambda topic: topic.topic_name)
    accepted = DeleteShareGroupOffsetsRequest(group_id=request.group_id, topics=allowed)
    refused = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        for topic in denied
    ]

    def complete(response: DeleteShareGroupOffsetsResponse) -> None:
        # An error of the group is the whole response.
        if not response.error_code:
            response.responses += refused

    return then(services.groups.submit(request.group_id, accepted, context), complete)
