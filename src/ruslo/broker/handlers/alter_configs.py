"""AlterConfigs v0-2: replaces all dynamic configs of a resource. Superseded by IncrementalAlterConfigs.

A broker validates changes of its own configs before it forwards them, as in IncrementalAlterConfigs.
"""

from __future__ import annotations

from ruslo.broker.handlers.broker_config_changes import broker_change_error
from ruslo.broker.handlers.services import ControllerServices, NodeServices, Services
from ruslo.broker.requests.config_access import require_config_access
from ruslo.broker.requests.context import RequestContext
from ruslo.config.alteration import replace_broker_keys
from ruslo.machines.controller.config_image import BROKER
from ruslo.model.acls import Operation
from ruslo.model.errors import KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from ruslo.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse


async def handle_at_broker(
    services: Services, request: AlterConfigsRequest, context: RequestContext
) -> Message:
    response = AlterConfigsResponse()
    forwarded: list[AlterConfigsResource] = []
    for resource in request.resources:
        if resource.resource_type == BROKER and (error := _broker_error(services, resource, context)):
            response.responses.append(_failed(resource, error))
        else:
            forwarded.append(resource)
    if forwarded:
        rest = AlterConfigsRequest(resources=forwarded, validate_only=request.validate_only)
        decided = await services.gateway.forward(rest, context)
        assert isinstance(decided, AlterConfigsResponse)
        response.responses += decided.responses
    return response


async def handle(
    services: ControllerServices, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    responses: list[AlterConfigsResourceResponse] = []
    accepted: list[AlterConfigsResource] = []
    for resource in request.resources:
        try:
            require_config_access(
                context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name
            )
        except KafkaError as error:
            responses.append(_failed(resource, error))
            continue
        if resource.resource_type == BROKER and (invalid := _broker_error(services, resource, context)):
            responses.append(_failed(resource, invalid))
        else:
            accepted.append(resource)
    if accepted:
        change = AlterConfigsRequest(resources=accepted, validate_only=request.validate_only)
        response = await services.controller.submit(change, context)
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
