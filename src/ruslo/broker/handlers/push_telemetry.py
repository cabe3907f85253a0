"""PushTelemetry v0 (KIP-714): the metrics of a client, which the metrics listener exports."""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.push_telemetry_request import PushTelemetryRequest
from ruslo.protocol.messages.push_telemetry_response import PushTelemetryResponse


async def handle(
    services: Services, request: PushTelemetryRequest, context: RequestContext
) -> PushTelemetryResponse:
    await services.telemetry.push(request, context)
    return PushTelemetryResponse()
