"""UpdateFeatures v0-2 (KIP-584): all of the updates or none.

v1 replaces "allow downgrade" by an upgrade type and adds validate-only (KIP-778); v2 drops the results.
"""

from __future__ import annotations

from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import Services
from ruslo.protocol.messages.update_features_request import UpdateFeaturesRequest
from ruslo.protocol.messages.update_features_response import UpdateFeaturesResponse


async def handle(
    services: Services, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    assert isinstance(response, UpdateFeaturesResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    if context.api_version >= 2:
        response.results = []
    return response
