"""AlterConfigs v0-2: replaces all dynamic configs of a resource. Superseded by IncrementalAlterConfigs."""

from __future__ import annotations

from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import NodeServices
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest
from ruslo.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse


async def handle(
    services: NodeServices, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    try:
        response = await services.controller.submit(request, context)
    except KafkaError as error:
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    error_code=error.code,
                    error_message=error.message,
                )
                for each in request.resources
            ]
        )
    assert isinstance(response, AlterConfigsResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response
