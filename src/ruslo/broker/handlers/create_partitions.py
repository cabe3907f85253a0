"""CreatePartitions v0-3: more partitions for existing topics. v2 is flexible, v3 the same (throttling)."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest
from ruslo.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(
    services: NodeServices, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    try:
        response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    except KafkaError as error:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.message
                )
                for topic in request.topics
            ]
        )
    assert isinstance(response, CreatePartitionsResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response
