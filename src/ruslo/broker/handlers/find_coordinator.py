"""FindCoordinator v0-6: the broker that coordinates a group or transactional id.

v0-3 have one key, v4+ several with an error for each (KIP-699). v1: the key type: 0 a group, 1 a
transactional id, 2 a share-partition (v6), for brokers.

The first request of a client that may describe one of its keys creates the coordinator's topic.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.coordinators.runtime.internal_topic import InternalTopic
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.access import AUTHORIZATION_ERRORS
from ruslo.broker.requests.context import RequestContext, denial
from ruslo.machines.share_coordinator.records import ShareKey
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

BATCHED_MIN_VERSION = 4
SHARE_MIN_VERSION = 6
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = range(3)
_RESOURCES = {GROUP_KEY: ResourceType.GROUP, TRANSACTION_KEY: ResourceType.TRANSACTIONAL_ID}


def handle(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if request.key_type == SHARE_KEY and context.api_version >= SHARE_MIN_VERSION:
        context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    topic = _topic_of(services, request.key_type)
    if (
        topic is not None
        and topic.name not in services.metadata.image.topics.by_name
        and _describes_any(request, context)
    ):
        return _create_and_find(services, topic, request, context)
    return _find_all(services, request, context)


def _describes_any(request: FindCoordinatorRequest, context: RequestContext) -> bool:
    """Whether the client may describe one of the keys."""
    keys = request.coordinator_keys if context.api_version >= BATCHED_MIN_VERSION else [request.key]
    resource = _RESOURCES.get(request.key_type)
    if resource is None:
        return context.api_version >= SHARE_MIN_VERSION and any(map(_is_share_key, keys))
    return any(context.allows(Operation.DESCRIBE, resource, key, audited=False) for key in keys)


def _topic_of(services: Services, key_type: int) -> InternalTopic | None:
    if key_type == GROUP_KEY:
        return services.offsets_topic
    if key_type == TRANSACTION_KEY:
        return services.transactions_topic
    return services.share_state_topic if key_type == SHARE_KEY else None


def _is_share_key(key: str) -> bool:
    try:
        ShareKey.parse(key)
    except ValueError:
        return False
    return True


async def _create_and_find(
    services: Services, topic: InternalTopic, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    # In Kafka the client has to retry. Waiting for the topic saves the first client half a second.
    await topic.create()
    await services.metadata.wait_for(services.controller.committed_offset)
    return _find_all(services, request, context)


def _find_all(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    if context.api_version >= BATCHED_MIN_VERSION:
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
    resource = _RESOURCES.get(key_type)
    if resource is not None and not context.allows(Operation.DESCRIBE, resource, key):
        return _error(key, AUTHORIZATION_ERRORS[resource], denial(context, Operation.DESCRIBE, resource, key))
    internal = _topic_of(services, key_type)
    if internal is None or (key_type == SHARE_KEY and context.api_version < SHARE_MIN_VERSION):
        return _error(key, ErrorCode.INVALID_REQUEST, f"Key type {key_type} is unknown")
    if key_type == SHARE_KEY and not _is_share_key(key):
        problem = f"{key!r} is not the key of a share-partition: GROUP:TOPIC_ID:PARTITION"
        return _error(key, ErrorCode.INVALID_REQUEST, problem)
    image = services.metadata.image
    topic = image.topics.by_name.get(internal.name)
    if topic is None:
        return _error(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{internal.name} does not exist yet")
    coordinators = (services.groups, services.transactions, services.shares)
    partition = topic.partitions[coordinators[key_type].partition_of(key)]
    broker = image.cluster.brokers.get(partition.leader)
    endpoint = None if broker is None or broker.fenced else broker.endpoint(context.listener_name)
    if endpoint is None:
        return _error(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator's partition has no leader")
    return Coordinator(
        key=key, node_id=partition.leader, host=endpoint.host, port=endpoint.port, error_message=None
    )


def _error(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
