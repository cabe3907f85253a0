"""DeleteTopics v1-6: by name; v6 also by topic id (KIP-516). Waits until this broker has dropped them too."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ruslo.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse


async def handle(
    services: NodeServices, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    if not services.config.bool("delete.topic.enable"):
        # The specific error exists from v3 on.
        disabled = (
            ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
        )
        return _failed(request, KafkaError(disabled, "delete.topic.enable is false on this broker"))
    try:
        response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    except KafkaError as error:
        return _failed(request, error)
    assert isinstance(response, DeleteTopicsResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response


def _failed(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    named = [DeletableTopicResult(name=name) for name in request.topic_names]
    given = [DeletableTopicResult(name=each.name, topic_id=each.topic_id) for each in request.topics]
    results = named + given
    for result in results:
        result.error_code, result.error_message = error.code, error.message
    return DeleteTopicsResponse(responses=results)
