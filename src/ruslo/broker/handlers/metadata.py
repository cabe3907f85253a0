"""Metadata v0-13: brokers, topics and the leader of each partition. Unknown topics may be created.

As in Apache Kafka, the response does not wait for a creation: it contains UNKNOWN_TOPIC_OR_PARTITION, and the
client finds the topic with its next request.

- v0: an empty list of topics means all; from v1 on null does, and an empty list means none.
- v4: the client says whether topics may be created.
- v8: authorized operations (KIP-430).
- v10: topic ids, accepted in requests from v12 on.

After leader changes of thousands of partitions, their descriptions are rebuilt in slices. Then the response
is assembled in one step from one state of the metadata.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Awaitable, Iterable, Set
from functools import partial
from itertools import islice

from ruslo.broker.handlers.services import Services
from ruslo.broker.metadata.controller_id import controller_id
from ruslo.broker.metadata.topic_responses import TopicQuery
from ruslo.broker.requests.access import NOT_REQUESTED, OPEN, operation_bits
from ruslo.broker.requests.context import RequestContext, cluster_operations
from ruslo.broker.scheduling.scheduler import Priority, for_each
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.topic_image import TopicImage
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.model.topics import INTERNAL_TOPICS, topic_name_problem
from ruslo.protocol.apis import API_BY_NAME
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ruslo.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

logger = logging.getLogger(__name__)

_CREATION_TIMEOUT_MS = 30_000
_CREATE_VERSION = API_BY_NAME["CreateTopics"].max_version
USE_DEFAULT = -1
"""The controller's default applies."""
MANY_PARTITIONS = 500
"""Above this number the response is built in slices: each partition takes some 10 µs."""
MAX_CREATED_TOPICS = 250
"""The number of topics that one request creates; the client's retries create the others."""
_MAX_ROUNDS = 5
"""Descriptions that become outdated while others are built are rebuilt in at most this many rounds."""


def handle(
    services: Services, request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Awaitable[MetadataResponse]:
    missing = _to_create(services, request, context)
    outdated = _outdated(services, request, context)
    response: MetadataResponse | Awaitable[MetadataResponse]
    if outdated:
        response = _respond_in_slices(services, request, context, outdated)
    else:
        response = _respond(services, request, context)
    if missing:
        _create(services, missing, context)
    return response


def _outdated(services: Services, request: MetadataRequest, context: RequestContext) -> list[TopicImage]:
    """The requested topics whose descriptions must be rebuilt; none if they have few partitions together."""
    image = services.metadata.image
    if image.topics.partition_count <= MANY_PARTITIONS:
        return []
    topics: Iterable[TopicImage] = _describable(image, context)
    if not _requests_all_topics(request, context):
        named = (image.topics.by_name.get(each.name or "") for each in request.topics or ())
        topics = [topic for topic in named if topic is not None]
        if _partition_count(topics) <= MANY_PARTITIONS:
            return []
    outdated = services.topic_responses.outdated(image, topics, _query(services, request, context))
    return outdated if _partition_count(outdated) > MANY_PARTITIONS else []


def _query(services: Services, request: MetadataRequest, context: RequestContext) -> TopicQuery:
    access = context.access if request.include_topic_authorized_operations else None
    lost = services.topic_responses.lost_leaders()
    return TopicQuery(context.listener_name, context.api_version, lost, access)


def _describable(image: MetadataImage, context: RequestContext) -> Iterable[TopicImage]:
    """All topics that the client may describe; the others stay hidden."""
    topics = image.topics.by_name.values()
    if context.access is OPEN:
        return topics
    return [
        topic
        for topic in topics
        if context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, audited=False)
    ]


def _partition_count(topics: Iterable[TopicImage]) -> int:
    return sum(len(topic.partitions) for topic in topics)


async def _respond_in_slices(
    services: Services, request: MetadataRequest, context: RequestContext, outdated: list[TopicImage]
) -> MetadataResponse:
    def rebuild(topic_id: Uuid) -> None:
        # The topic may be deleted by now, and the image replaced.
        image = services.metadata.image
        topic = image.topics.by_id.get(topic_id)
        if topic is not None:
            services.topic_responses.get(image, topic, query).encode(query.version)

    for _ in range(_MAX_ROUNDS):
        query = _query(services, request, context)
        steps = for_each([topic.id for topic in outdated], rebuild)
        await services.scheduler.run(steps, priority=Priority.REQUEST, name="a Metadata response")
        outdated = _outdated(services, request, context)
        if not outdated:
            break
    return _respond(services, request, context)


def _requests_all_topics(request: MetadataRequest, context: RequestContext) -> bool:
    return request.topics is None or (context.api_version == 0 and not request.topics)


def _respond(services: Services, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    image, query = services.metadata.image, _query(services, request, context)
    response = MetadataResponse(
        brokers=_brokers(services, context.listener_name, query.lost),
        cluster_id=services.cluster_id,
        controller_id=controller_id(services.metadata, services.node_id),
    )
    if request.topics is None or _requests_all_topics(request, context):
        describe = services.topic_responses.get
        response.topics = [describe(image, topic, query) for topic in _describable(image, context)]
    else:
        creates = _creates_topics(services, request)
        response.topics = [
            _describe_requested(services, each, query, context, creates) for each in request.topics
        ]
    if request.include_cluster_authorized_operations and 8 <= query.version <= 10:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _describe_requested(
    services: Services,
    requested: MetadataRequestTopic,
    query: TopicQuery,
    context: RequestContext,
    creates: bool,
) -> MetadataResponseTopic:
    """``creates``: a topic that does not exist is created, which the client must be allowed to do."""
    image = services.metadata.image
    if query.version < 12 and (requested.name is None or requested.topic_id != ZERO_UUID):
        # v10 and v11 have the field, but Kafka did not use it then.
        return _failed(ErrorCode.INVALID_REQUEST, requested.name or "")
    if requested.name is None or requested.topic_id != ZERO_UUID:
        topic = image.topics.by_id.get(requested.topic_id)
        if topic is None:
            return _failed(ErrorCode.UNKNOWN_TOPIC_ID, None, requested.topic_id)
        if not context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, requested.topic_id)
    else:
        if not context.allows(Operation.DESCRIBE, ResourceType.TOPIC, requested.name):
            return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, requested.name)
        topic = image.topics.by_name.get(requested.name)
        if topic is None:
            if creates and not _may_create(context, requested.name):
                return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, requested.name)
            is_valid = topic_name_problem(requested.name) is None
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION
            operations = (
                NOT_REQUESTED
                if query.access is None
                else operation_bits(query.access, ResourceType.TOPIC, requested.name)
            )
            return _failed(error, requested.name, operations=operations)
    return services.topic_responses.get(image, topic, query)


def _failed(
    error: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID, *, operations: int = NOT_REQUESTED
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _brokers(services: Services, listener_name: str, lost: Set[int]) -> list[MetadataResponseBroker]:
    brokers: list[MetadataResponseBroker] = []
    for broker in services.metadata.image.cluster.brokers.values():
        endpoint = broker.endpoint(listener_name)
        if endpoint is not None and not broker.fenced and broker.id not in lost:
            brokers.append(
                MetadataResponseBroker(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    return brokers


def _creates_topics(services: Services, request: MetadataRequest) -> bool:
    return services.config.bool("auto.create.topics.enable") and request.allow_auto_topic_creation


def _may_create(context: RequestContext, name: str) -> bool:
    return context.allows(Operation.CREATE, ResourceType.CLUSTER, audited=False) or context.allows(
        Operation.CREATE, ResourceType.TOPIC, name
    )


def _to_create(services: Services, request: MetadataRequest, context: RequestContext) -> set[str]:
    if not request.topics or not _creates_topics(services, request):
        return set()
    known = services.metadata.image.topics.by_name
    missing = {
        each.name
        for each in request.topics
        if each.name is not None
        and each.topic_id == ZERO_UUID
        and each.name not in known
        # Coordinators create their internal topics themselves, with their own configs.
        and each.name not in INTERNAL_TOPICS
        and topic_name_problem(each.name) is None
        and context.allows(Operation.DESCRIBE, ResourceType.TOPIC, each.name)
        and _may_create(context, each.name)
    }
    return set(islice(missing, MAX_CREATED_TOPICS))


def _creatable_topic(services: Services, name: str) -> CreatableTopic:
    """This broker's configured defaults apply; otherwise the controller's do."""
    config = services.config
    partitions, replicas = "num.partitions", "default.replication.factor"
    return CreatableTopic(
        name=name,
        num_partitions=config.int(partitions) if config.is_set(partitions) else USE_DEFAULT,
        replication_factor=config.int(replicas) if config.is_set(replicas) else USE_DEFAULT,
    )


def _create(services: Services, missing: set[str], context: RequestContext) -> None:
    """Start the creation of topics that no earlier request is creating."""
    missing -= services.topics_in_creation
    if not missing:
        return
    request = CreateTopicsRequest(
        topics=[_creatable_topic(services, name) for name in sorted(missing)],
        timeout_ms=_CREATION_TIMEOUT_MS,
    )
    services.topics_in_creation |= missing
    # The controller authorizes the client, not this broker.
    as_client = context._replace(api_version=_CREATE_VERSION, api_name="CreateTopics")
    creation = asyncio.ensure_future(services.gateway.forward(request, as_client))
    creation.add_done_callback(partial(_on_creation_done, services.topics_in_creation, missing))


def _on_creation_done(in_creation: set[str], names: set[str], creation: Future[Message]) -> None:
    in_creation -= names
    if creation.cancelled():
        return
    if isinstance(error := creation.exception(), KafkaError):
        logger.warning("auto-creation of %d topics failed: %s", len(names), error)
        return
    response = creation.result()
    assert isinstance(response, CreateTopicsResponse)
    # Another broker may have created a topic in the same moment.
    rejected = [t for t in response.topics if t.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS)]
    if rejected:
        logger.warning(
            "auto-creation of %d topics failed; the first is %s: %s (%s)",
            len(rejected),
            rejected[0].name,
            rejected[0].error_message,
            ErrorCode(rejected[0].error_code).name,
        )
