"""AlterConfigs v0-2: replaces all dynamic configs of a resource. Superseded by IncrementalAlterConfigs.

A broker validates changes of its own configs first, as in IncrementalAlterConfigs.
"""

from __future__ import annotations

from ruslo.broker.handlers.broker_config_changes import broker_change_error
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
        if resource.resource_type == BROKER and (error := _broker_error(services, resource, context)):
            responses.append(_failed(resource, error))
        else:
            accepted.append(resource)
    if accepted:
        forwarded = AlterConfigsRequest(resources=accepted, validate_only=request.validate_only)
        try:
            response = await services.controller.submit(forwarded, context)
        except KafkaError as error:
            responses += [_failed(resource, error) for resource in accepted]
        else:
            assert isinstance(response, AlterConfigsResponse)
            responses += response.responses
            await services.metadata.wait_for(services.controller.committed_offset)
    return AlterConfigsResponse(responses=responses)


def _broker_error(
    services: NodeServices, resource: AlterConfigsResource, context: RequestContext
) -> KafkaError | None:
    given = {each.name: each.value for each in resource.configs}
    return broker_change_error(
        services,
        context,
        resource.resource_name,
        lambda _, per_broker: replace_broker_keys(given, per_broker=per_broker),
    )


def _failed(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error.code,
        error_message=error.message,
    )
