"""IncrementalAlterConfigs v0-1 (KIP-339): set, delete, append or subtract single configs of a resource.

Log levels (KIP-412) belong to this process and are changed here; the controller changes everything else. A
broker validates changes of its own configs first, because no other node has its property file.
"""

from __future__ import annotations

from ruslo.broker.handlers.broker_config_changes import broker_change_error
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.loggers import change_logger_levels
from ruslo.config.alteration import Alteration, alter_broker_keys
from ruslo.machines.controller.config_image import BROKER, BROKER_LOGGER
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
    responses: list[AlterConfigsResourceResponse] = []
    accepted: list[AlterConfigsResource] = []
    for resource in request.resources:
        if resource.resource_type == BROKER_LOGGER:
            responses.append(_change_loggers(services, resource, request.validate_only))
        elif resource.resource_type == BROKER and (error := _broker_error(services, resource, context)):
            responses.append(_result(resource, error))
        else:
            accepted.append(resource)
    if accepted:
        forwarded = IncrementalAlterConfigsRequest(resources=accepted, validate_only=request.validate_only)
        try:
            response = await services.controller.submit(forwarded, context)
        except KafkaError as error:
            responses += [_result(resource, error) for resource in accepted]
        else:
            assert isinstance(response, IncrementalAlterConfigsResponse)
            responses += response.responses
            await services.metadata.wait_for(services.controller.committed_offset)
    return IncrementalAlterConfigsResponse(responses=responses)


def _broker_error(
    services: NodeServices, resource: AlterConfigsResource, context: RequestContext
) -> KafkaError | None:
    alterations = [Alteration(each.name, each.config_operation, each.value) for each in resource.configs]
    return broker_change_error(
        services,
        context,
        resource.resource_name,
        lambda current, per_broker: alter_broker_keys(current, alterations, per_broker=per_broker),
    )


def _change_loggers(
    services: NodeServices, resource: AlterConfigsResource, validate_only: bool
) -> AlterConfigsResourceResponse:
    changes = [(each.name, each.config_operation, each.value) for each in resource.configs]
    try:
        change_logger_levels(services.node_id, resource.resource_name, changes, validate_only=validate_only)
    except KafkaError as error:
        return _result(resource, error)
    return _result(resource)


def _result(resource: AlterConfigsResource, error: KafkaError | None = None) -> AlterConfigsResourceResponse:
    result = AlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    if error is not None:
        result.error_code, result.error_message = error.code, error.message
    return result
