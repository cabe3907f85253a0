"""IncrementalAlterConfigs v0-1 (KIP-339): set, delete, append, subtract single configs of a resource.

Levels of loggers (KIP-412) live in this process and are changed here; everything else is the controller's.
"""

from __future__ import annotations

from ruslo.broker.loggers import change_logger_levels
from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import NodeServices
from ruslo.machines.controller.config_image import BROKER_LOGGER
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


async def handle(
    services: NodeServices, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    loggers = [each for each in request.resources if each.resource_type == BROKER_LOGGER]
    others = [each for each in request.resources if each.resource_type != BROKER_LOGGER]
    responses = [_change_loggers(services, each, request.validate_only) for each in loggers]
    if others:
        forwarded = IncrementalAlterConfigsRequest(resources=others, validate_only=request.validate_only)
        responses += await _submit(services, forwarded, context)
    return IncrementalAlterConfigsResponse(responses=responses)


async def _submit(
    services: NodeServices, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> list[AlterConfigsResourceResponse]:
    try:
        response = await services.controller.submit(request, context)
    except KafkaError as error:
        return [_answer(resource, error) for resource in request.resources]
    assert isinstance(response, IncrementalAlterConfigsResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response.responses


def _change_loggers(
    services: NodeServices, resource: AlterConfigsResource, validate_only: bool
) -> AlterConfigsResourceResponse:
    changes = [(each.name, each.config_operation, each.value) for each in resource.configs]
    try:
        change_logger_levels(services.node_id, resource.resource_name, changes, validate_only=validate_only)
    except KafkaError as error:
        return _answer(resource, error)
    return _answer(resource)


def _answer(resource: AlterConfigsResource, error: KafkaError | None = None) -> AlterConfigsResourceResponse:
    answer = AlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    if error is not None:
        answer.error_code, answer.error_message = error.code, error.message
    return answer
