"""AlterConfigs v0-2: replaces all dynamic configs of a resource. Superseded by IncrementalAlterConfigs.

A broker validates changes of its own configs first, as in IncrementalAlterConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.broker.handlers.broker_config_changes import check_broker_change
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.config.alteration import replace_broker_keys
from ruslo.machines.controller.config_image import BROKER
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from ruslo.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse


async def handle(
    services: NodeServices, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    responses: list[AlterConfigsResourceResponse] = []
    accepted: list[AlterConfigsResource] = []
    for resource in request.resources:
        if resource.resource_type == BROKER and (error := _validation_error(services, resource, context)):
            responses.append(_failed(resource, error))
        else:
            accepted.append(resource)
    if accepted:
        forwarded = AlterConfigsRequest(resources=accepted, validate_only=request.validate_only)
        responses += await _submit(services, forwarded, context)
    return AlterConfigsResponse(responses=responses)


async def _submit(
    services: NodeServices, request: AlterConfigsRequest, context: RequestContext
) -> list[AlterConfigsResourceResponse]:
    try:
        response = await services.controller.submit(request, context)
    except KafkaError as error:
        return [_failed(resource, error) for resource in request.resources]
    assert isinstance(response, AlterConfigsResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response.responses


def _validation_error(
    services: NodeServices, resource: AlterConfigsResource, context: RequestContext
) -> KafkaError | None:
    given = {each.name: each.value for each in resource.configs}

    def change(current: Mapping[str, str], *, per_broker: bool) -> Mapping[str, str]:
        return replace_broker_keys(given, per_broker=per_broker)

    try:
        check_broker_change(services, context, resource.resource_name, change)
    except KafkaError as error:
        return error
    return None


def _failed(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error.code,
        error_message=error.message,
    )
