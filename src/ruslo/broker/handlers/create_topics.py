"""CreateTopics v2-7: the controller decides; the response is sent when this broker knows the topics too.

- v4: -1 for the default number of partitions and replication factor (KIP-464).
- v5: the resulting configs (KIP-525), those of the active controller, not of the forwarding broker.
- v7: the topic id (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping
from copy import copy

from ruslo.broker.handlers.mutation_quota import MutationQuota
from ruslo.broker.handlers.services import ControllerServices, NodeServices
from ruslo.broker.requests.access import OPEN
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Priority
from ruslo.config.resolution import describe_topic
from ruslo.machines.controller.state import MAX_RECORDS_PER_REQUEST
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

MAX_PARTITIONS_PER_SUBREQUEST = 250
STRICT_QUOTA_FROM = 6


async def handle(
    services: ControllerServices, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    accepted, results = _accepted(request, context)
    default = services.config.int("num.partitions")
    quota = MutationQuota(services, context, strict_from=STRICT_QUOTA_FROM)
    accepted, throttled = _within_quota(accepted, default, quota)
    results += throttled
    promises: list[tuple[CreateTopicsRequest, Awaitable[Message]]] = []
    for part in split_request(accepted, default):
        if promises:
            await services.scheduler.checkpoint(Priority.REQUEST)
        promises.append((part, services.controller.submit(part, context, timeout_ms=request.timeout_ms)))
    for part, promise in promises:
        results += await _results_of(part, promise, is_first=part is promises[0][0])
    sizes = {topic.name: partition_count(topic, default) for topic in accepted.topics}
    for result in results:
        if result.error_code:
            quota.give_back(sizes.get(result.name, 0))
    response = CreateTopicsResponse(topics=results, throttle_time_ms=quota.throttle_ms)
    if any(not result.error_code for result in results):
        await services.metadata.wait_for(services.controller.committed_offset)
    if context.api_version >= 5:
        _add_configs(services, request, response)
        _hide_configs(response, context)
    return response


def _accepted(
    request: CreateTopicsRequest, context: RequestContext
) -> tuple[CreateTopicsRequest, list[CreatableTopicResult]]:
    """The request with the topics that the client may create, and the results of the others."""
    if context.allows(Operation.CREATE, ResourceType.CLUSTER, audited=False):
        return request, []
    counts = Counter(topic.name for topic in request.topics)
    denied = {
        name
        for name, count in counts.items()
        # The controller refuses duplicates of any client.
        if count == 1 and not context.allows(Operation.CREATE, ResourceType.TOPIC, name)
    }
    accepted = copy(request)
    accepted.topics = [topic for topic in request.topics if topic.name not in denied]
    return accepted, [
        CreatableTopicResult(
            name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="Authorization failed."
        )
        for name in denied
    ]


def _hide_configs(response: CreateTopicsResponse, context: RequestContext) -> None:
    """A client that may not describe the configs of a topic does not see them (KIP-525)."""
    if context.access is OPEN:
        return
    for result in response.topics:
        if not result.error_code and not context.allows(
            Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name, audited=False
        ):
            result.configs = None
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.num_partitions = result.replication_factor = -1


def _within_quota(
    request: CreateTopicsRequest, default_partitions: int, quota: MutationQuota
) -> tuple[CreateTopicsRequest, list[CreatableTopicResult]]:
    """The request with the topics within the client's quota, and the results of the others."""
    admitted = [topic for topic in request.topics if quota.admits(partition_count(topic, default_partitions))]
    if len(admitted) == len(request.topics):
        return request, []
    error = quota.error()
    names = {topic.name for topic in admitted}
    refused = [
        CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
        for topic in request.topics
        if topic.name not in names
    ]
    changed = copy(request)
    changed.topics = admitted
    return changed, refused


def partition_count(topic: CreatableTopic, default_partitions: int) -> int:
    return len(topic.assignments) or (
        topic.num_partitions if topic.num_partitions > 0 else default_partitions
    )


def split_request(request: CreateTopicsRequest, default_partitions: int) -> list[CreateTopicsRequest]:
    """Split the request into smaller ones; each topic is decided independently.

    It is not split if its topics depend on each other: a duplicate name, a request that is too large as a
    whole, or a validation, which must consider all topics together.
    """
    sizes = [partition_count(topic, default_partitions) for topic in request.topics]
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


async def _results_of(
    part: CreateTopicsRequest, promise: Awaitable[Message], *, is_first: bool
) -> list[CreatableTopicResult]:
    try:
        response = await promise
    except KafkaError as error:
        if is_first and error.code is ErrorCode.NOT_CONTROLLER:
            # Nothing is created yet, so the next controller can handle the whole request.
            raise
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
