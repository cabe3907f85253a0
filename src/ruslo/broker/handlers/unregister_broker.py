"""UnregisterBroker v0: remove the registration of a broker; one that is alive registers again."""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ruslo.protocol.messages.unregister_broker_response import UnregisterBrokerResponse


async def handle(
    services: Services, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    response = await services.controller.submit(request, context)
    assert isinstance(response, UnregisterBrokerResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response
