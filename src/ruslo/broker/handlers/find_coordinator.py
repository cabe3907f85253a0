"""FindCoordinator v0-6: which broker leads the partition of a coordinator's topic that a key belongs to.

v0-3 ask for one key, v4+ for several with an error for each (KIP-699). v1: the kind of key: 0 a group, 1 a
transactional id, 2 a share group's partition (v6); the last has no coordinator in this release.

The topic is made when the first client asks.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.coordinators.runtime.internal_topic import InternalTopic
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

MANY_KEYS_FROM = 4
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = range(3)


def handle(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    topic = _topic_of(services, request.key_type)
    if topic is not None and topic.name not in services.metadata.image.topics.by_name:
        return _create_and_answer(services, topic, request, context)
    return _answer(services, request, context)


def _topic_of(services: Services, key_type: int) -> InternalTopic | None:
    if key_type == GROUP_KEY:
        return services.offsets_topic
    return services.transactions_topic if key_type == TRANSACTION_KEY else None


async def _create_and_answer(
    services: Services, topic: InternalTopic, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    # Kafka sends the client away to ask again; a moment's wait here spares its first client half a second.
    await topic.create()
    await services.metadata.wait_for(services.controller.committed_offset)
    return _answer(services, request, context)


def _answer(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    if context.api_version >= MANY_KEYS_FROM:
        found = [_find(services, key, request.key_type, context) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(services, request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(services: Services, key: str, key_type: int, context: RequestContext) -> Coordinator:
    if key_type == SHARE_KEY:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "this release has no share groups")
    internal = _topic_of(services, key_type)
    if internal is None:
        return _none(key, ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    image = services.metadata.image
    topic = image.topics.by_name.get(internal.name)
    if topic is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{internal.name} does not exist yet")
    coordinator = services.groups if key_type == GROUP_KEY else services.transactions
    partition = topic.partitions[coordinator.partition_of(key)]
    broker = image.cluster.brokers.get(partition.leader)
    endpoint = None if broker is None or broker.fenced else broker.endpoint(context.listener_name)
    if endpoint is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the key's partition has no leader just now")
    return Coordinator(
        key=key, node_id=partition.leader, host=endpoint.host, port=endpoint.port, error_message=None
    )


def _none(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
