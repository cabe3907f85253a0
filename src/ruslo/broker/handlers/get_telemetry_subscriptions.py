"""GetTelemetrySubscriptions v0 (KIP-714): which metrics a client pushes, and how often."""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from ruslo.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse


def handle(
    services: Services, request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    return services.telemetry.subscriptions_of(request, context)
