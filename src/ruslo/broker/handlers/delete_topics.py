"""DeleteTopics v1-6: by name; v6 also by topic id (KIP-516). The response waits until they are gone here.

A client that may not describe a topic does not learn whether it exists.
"""

from __future__ import annotations

from ruslo.broker.handlers.mutation_quota import MutationQuota
from ruslo.broker.handlers.services import ControllerServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ruslo.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

STRICT_QUOTA_FROM = 5


async def handle(
    services: ControllerServices, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    if not services.config.bool("delete.topic.enable"):
        # The specific error exists from v3 on.
        disabled = (
            ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
        )
        raise KafkaError(disabled, "delete.topic.enable is false on this controller")
    wanted = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    quota = MutationQuota(services, context, strict_from=STRICT_QUOTA_FROM)
    admitted: list[DeleteTopicState] = []
    refusals: list[DeletableTopicResult] = []
    for each in wanted:
        refusal = _refusal(services, each, context)
        if refusal is None and not quota.admits(_partition_count(services, each)):
            error = quota.error()
            refusal = DeletableTopicResult(
                name=each.name, topic_id=each.topic_id, error_code=error.code, error_message=error.message
            )
        if refusal is None:
            admitted.append(each)
        else:
            refusals.append(refusal)
    response = await services.controller.submit(
        DeleteTopicsRequest(topics=admitted), context, timeout_ms=request.timeout_ms
    )
    assert isinstance(response, DeleteTopicsResponse)
    response.responses += refusals
    response.throttle_time_ms = quota.throttle_ms
    await services.metadata.wait_for(services.controller.committed_offset)
    return response


def _partition_count(services: ControllerServices, requested: DeleteTopicState) -> int:
    topics = services.metadata.image.topics
    topic = (
        topics.by_id.get(requested.topic_id) if requested.name is None else topics.by_name.get(requested.name)
    )
    return 0 if topic is None else len(topic.partitions)


def _refusal(
    services: ControllerServices, requested: DeleteTopicState, context: RequestContext
) -> DeletableTopicResult | None:
    """The result for a client that may not delete the topic, or may not know of it; None if it may."""
    if context.allows(Operation.DELETE, ResourceType.CLUSTER, audited=False):
        return None
    topics = services.metadata.image.topics
    name = requested.name if requested.name is not None else topics.name_of(requested.topic_id)
    if name is None:
        return None
    by_id = requested.name is None
    if by_id and context.allows(Operation.DELETE, ResourceType.TOPIC, name):
        # An id is not a secret, so DELETE is enough.
        return None
    describable = context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if (
        not by_id
        and describable
        and (name not in topics.by_name or context.allows(Operation.DELETE, ResourceType.TOPIC, name))
    ):
        return None
    return DeletableTopicResult(
        name=name if describable or not by_id else None,
        topic_id=requested.topic_id if by_id else ZERO_UUID,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=None,
    )
