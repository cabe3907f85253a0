"""ElectLeaders v0-2 (KIP-460): preferred leaders, or from v1 on anybody alive. v2 is flexible."""

from __future__ import annotations

from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import Services
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.elect_leaders_response import ElectLeadersResponse


async def handle(
    services: Services, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    assert isinstance(response, ElectLeadersResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response
