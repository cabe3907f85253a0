"""AlterShareGroupOffsets v0 (KIP-932): sets the start offsets of a share group that has no members."""

from __future__ import annotations

from ruslo.broker.handlers.allowed_resources import split_topics, then
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ruslo.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


def handle(services: Services, request: AlterShareGroupOffsetsRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    allowed, denied = split_topics(context, Operation.READ, request.topics, lambda topic: topic.topic_name)
    accepted = AlterShareGroupOffsetsRequest(group_id=request.group_id, topics=allowed)
    refused = [
        AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for each in topic.partitions
            ],
        )
        for topic in denied
    ]

    def complete(response: AlterShareGroupOffsetsResponse) -> None:
        # An error of the group is the whole response.
        if not response.error_code:
            response.responses += refused

    return then(services.groups.submit(request.group_id, accepted, context), complete)
