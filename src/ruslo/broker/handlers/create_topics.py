"""CreateTopics v2-7: the controller decides; the response is sent when this broker knows the topics too.

- v4: -1 for the default number of partitions and replication factor (KIP-464).
- v5: the resulting configs (KIP-525), those of the active controller, not of the forwarding broker.
- v7: the topic id (KIP-516).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Priority
from ruslo.config.resolution import describe_topic
from ruslo.machines.controller.state import MAX_RECORDS_PER_REQUEST
from ruslo.model.errors import KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

MAX_PARTITIONS_PER_SUBREQUEST = 250


async def handle(
    services: NodeServices, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    promises: list[tuple[CreateTopicsRequest, Awaitable[Message]]] = []
    for part in split_request(request, services.config.int("num.partitions")):
        if promises:
            await services.scheduler.checkpoint(Priority.REQUEST)
        promises.append((part, services.controller.submit(part, context, timeout_ms=request.timeout_ms)))
    results: list[CreatableTopicResult] = []
    for part, promise in promises:
        results += await _results_of(part, promise)
    response = CreateTopicsResponse(topics=results)
    if any(not result.error_code for result in results):
        await services.metadata.wait_for(services.controller.committed_offset)
    if context.api_version >= 5:
        _add_configs(services, request, response)
    return response


def split_request(request: CreateTopicsRequest, default_partitions: int) -> list[CreateTopicsRequest]:
    """Split the request into smaller ones; each topic is decided independently.

    It is not split if its topics depend on each other: a duplicate name, a request that is too large as a
    whole, or a validation, which must consider all topics together.
    """
    sizes = [
        len(topic.assignments) or (topic.num_partitions if topic.num_partitions > 0 else default_partitions)
        for topic in request.topics
    ]
    has_duplicates = len({topic.name for topic in request.topics}) < len(request.topics)
    records = sum(sizes) + sum(1 + len(topic.configs) for topic in request.topics)
    if request.validate_only or has_duplicates or records > MAX_RECORDS_PER_REQUEST:
        return [request]
    parts: list[list[CreatableTopic]] = [[]]
    room = MAX_PARTITIONS_PER_SUBREQUEST
    for topic, size in zip(request.topics, sizes, strict=True):
        if size > room and parts[-1]:
            parts.append([])
            room = MAX_PARTITIONS_PER_SUBREQUEST
        parts[-1].append(topic)
        room -= size
    return [CreateTopicsRequest(topics=part, timeout_ms=request.timeout_ms) for part in parts]


async def _results_of(part: CreateTopicsRequest, promise: Awaitable[Message]) -> list[CreatableTopicResult]:
    try:
        response = await promise
    except KafkaError as error:
        return [
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in part.topics
        ]
    assert isinstance(response, CreateTopicsResponse)
    return response.topics


def _add_configs(
    services: NodeServices, request: CreateTopicsRequest, response: CreateTopicsResponse
) -> None:
    requested = {topic.name: topic.configs for topic in request.topics}
    known: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
    for result in response.topics:
        # A controller on another node has already added its configs.
        if not result.error_code and not result.configs:
            overrides = {each.name: each.value for each in requested[result.name] if each.value is not None}
            key = frozenset(overrides.items())
            if key not in known:
                known[key] = _configs(services, overrides)
            result.configs = known[key]


def _configs(services: NodeServices, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in describe_topic(services.dynamic_config.current, overrides)
    ]
