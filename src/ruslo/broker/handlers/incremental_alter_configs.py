"""IncrementalAlterConfigs v0-1 (KIP-339): set, delete, append or subtract single configs of a resource.

Log levels (KIP-412) belong to this process and are changed here; the controller changes everything else. A
broker validates changes of its own configs before it forwards them, because no other node has its property
file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ruslo.broker.handlers.broker_config_changes import broker_change_error
from ruslo.broker.handlers.services import ControllerServices, NodeServices, Services
from ruslo.broker.requests.config_access import require_config_access
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.loggers import change_logger_levels
from ruslo.config.alteration import Alteration, alter_broker_keys
from ruslo.machines.controller.config_image import BROKER, BROKER_LOGGER
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


async def handle_at_broker(
    services: Services, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Message:
    response = IncrementalAlterConfigsResponse()
    repeated = _repeated_loggers(request)
    forwarded: list[AlterConfigsResource] = []
    for resource in request.resources:
        if resource.resource_type == BROKER_LOGGER:
            result = _change_loggers(
                services, resource, context, Operation.ALTER_CONFIGS, request.validate_only, repeated
            )
            response.responses.append(result)
        elif resource.resource_type == BROKER and (error := _broker_error(services, resource, context)):
            response.responses.append(_result(resource, error))
        else:
            forwarded.append(resource)
    if forwarded:
        rest = IncrementalAlterConfigsRequest(resources=forwarded, validate_only=request.validate_only)
        decided = await services.gateway.forward(rest, context)
        assert isinstance(decided, IncrementalAlterConfigsResponse)
        response.responses += decided.responses
    return response


async def handle(
    services: ControllerServices, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    responses: list[AlterConfigsResourceResponse] = []
    repeated = _repeated_loggers(request)
    accepted: list[AlterConfigsResource] = []
    for resource in request.resources:
        if resource.resource_type == BROKER_LOGGER:
            result = _change_loggers(
                services, resource, context, Operation.CLUSTER_ACTION, request.validate_only, repeated
            )
            responses.append(result)
            continue
        try:
            require_config_access(
                context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name
            )
        except KafkaError as error:
            responses.append(_result(resource, error))
            continue
        if resource.resource_type == BROKER and (invalid := _broker_error(services, resource, context)):
            responses.append(_result(resource, invalid))
        else:
            accepted.append(resource)
    if accepted:
        change = IncrementalAlterConfigsRequest(resources=accepted, validate_only=request.validate_only)
        response = await services.controller.submit(change, context)
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


def _repeated_loggers(request: IncrementalAlterConfigsRequest) -> set[str]:
    counts = Counter(each.resource_name for each in request.resources if each.resource_type == BROKER_LOGGER)
    return {name for name, count in counts.items() if count > 1}


def _change_loggers(
    services: NodeServices,
    resource: AlterConfigsResource,
    context: RequestContext,
    operation: Operation,
    validate_only: bool,
    repeated: Collection[str],
) -> AlterConfigsResourceResponse:
    changes = [(each.name, each.config_operation, each.value) for each in resource.configs]
    try:
        if resource.resource_name in repeated:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The loggers of node {resource.resource_name!r} are in the request twice. Send them once",
            )
        context.require(operation, ResourceType.CLUSTER)
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
