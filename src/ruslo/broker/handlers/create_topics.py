"""CreateTopics v2-7: decided by the controller, answered when this broker knows the topics as well.

v4: -1 for the defaults of partitions and replication factor (KIP-464). v5: the answer tells the resulting
configs (KIP-525). v7: and the topic id (KIP-516).
"""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import NodeServices
from ruslo.config.resolution import describe_topic
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)


async def handle(
    services: NodeServices, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    try:
        response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    except KafkaError as error:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
                for topic in request.topics
            ]
        )
    assert isinstance(response, CreateTopicsResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    if context.api_version >= 5:
        _tell_configs(services, request, response)
    return response


def _tell_configs(
    services: NodeServices, request: CreateTopicsRequest, response: CreateTopicsResponse
) -> None:
    asked = {topic.name: topic.configs for topic in request.topics}
    known: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
    for result in response.topics:
        if not result.error_code:
            overrides = {each.name: each.value for each in asked[result.name] if each.value is not None}
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
