"""ListConfigResources v0-1 (KIP-1142): the names of configurable resources. v0 lists client metrics only."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.controller.config_image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from ruslo.machines.controller.image import MetadataImage
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from ruslo.protocol.messages.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

_ALL_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(
    services: NodeServices, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    wanted = [CLIENT_METRICS] if context.api_version == 0 else list(dict.fromkeys(request.resource_types))
    if any(each not in _ALL_TYPES for each in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = services.metadata.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in wanted or _ALL_TYPES
            for name in _names(image, resource_type)
        ]
    )


def _names(image: MetadataImage, resource_type: int) -> list[str]:
    if resource_type == TOPIC:
        return list(image.topics.by_name)
    if resource_type in (BROKER, BROKER_LOGGER):
        return [str(broker_id) for broker_id in image.cluster.brokers]
    return [name for each, name in image.configs.by_resource if each == resource_type]
