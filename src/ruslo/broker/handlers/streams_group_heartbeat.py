"""StreamsGroupHeartbeat v0-1 (KIP-1071): joins, leaves, renews the session and reports the member's tasks.

The broker creates internal topics of the topology that are missing, if the client may create them.

v1: the acceptable recovery lag as int64, missing client tags, and requests for the topology description
(KIP-1331).
"""

from __future__ import annotations

import asyncio

from ruslo.broker.coordinators.groups.internal_topics import SHOWN_TOPICS
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.groups.streams.status import StatusCode
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import INTERNAL_TOPICS, topic_name_problem
from ruslo.protocol.message import Message
from ruslo.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology
from ruslo.protocol.messages.streams_group_heartbeat_response import Status, StreamsGroupHeartbeatResponse

_RETRY_HEARTBEATS = 2
"""A topic that could not be created is tried again after this number of heartbeat intervals."""


def handle(services: Services, request: StreamsGroupHeartbeatRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    if request.topology is not None:
        _check_topics(request.topology, context)
    response = services.groups.submit(request.group_id, request, context)
    if isinstance(response, asyncio.Future):
        return _create_missing_topics_later(services, request.group_id, context, response)
    _create_missing_topics(services, request.group_id, context, response)
    return response


def _check_topics(topology: Topology, context: RequestContext) -> None:
    """Raise KafkaError for names that are invalid, internal to the broker, or hidden from the client."""
    names: dict[str, None] = {}
    for each in topology.subtopologies:
        names.update(dict.fromkeys(each.source_topics))
        names.update(dict.fromkeys(each.repartition_sink_topics))
        names.update((topic.name, None) for topic in each.repartition_source_topics)
        names.update((topic.name, None) for topic in each.state_changelog_topics)
    for name in names:
        if name in INTERNAL_TOPICS:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, f"A topology cannot use {name}, a topic of the brokers"
            )
        problem = topic_name_problem(name)
        if problem is not None:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, f"The topology has an invalid topic name: {problem}"
            )
    for name in names:
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)


async def _create_missing_topics_later(
    services: Services, group_id: str, context: RequestContext, response: asyncio.Future[Message]
) -> Message:
    message = await response
    _create_missing_topics(services, group_id, context, message)
    return message


def _create_missing_topics(
    services: Services, group_id: str, context: RequestContext, response: Message
) -> None:
    """Start the creation of the internal topics that the response reports as missing."""
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    missing = next(
        (each for each in response.status or () if each.status_code == StatusCode.MISSING_INTERNAL_TOPICS),
        None,
    )
    if missing is None:
        return
    topics = services.groups.missing_internal_topics(group_id)
    if not context.allows(Operation.CREATE, ResourceType.CLUSTER, audited=False):
        denied = [
            topic.name
            for topic in topics
            if not context.allows(Operation.CREATE, ResourceType.TOPIC, topic.name)
        ]
        if denied:
            _append(missing, f"{context.principal} may not CREATE {', '.join(denied[:SHOWN_TOPICS])}")
            return
    retry_ms = _RETRY_HEARTBEATS * response.heartbeat_interval_ms
    services.streams_topics.create(group_id, topics, context, retry_ms=retry_ms)
    failure = services.streams_topics.failure(group_id)
    if failure is not None:
        shown = (f"{name} ({reason})" for name, reason in failure.examples.items())
        _append(missing, f"{failure.topic_count} could not be created: {', '.join(shown)}")


def _append(status: Status, detail: str) -> None:
    status.status_detail += f"; {detail}"
