"""The five requests of brokers about persisted share state (KIP-932), which their share coordinator handles.

InitializeShareGroupState v0, ReadShareGroupState v0, WriteShareGroupState v0-1, DeleteShareGroupState v0,
ReadShareGroupStateSummary v0-1. v1: records whose delivery is complete count for the lag (KIP-1226).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.share_coordinator.responses import ShareRequest


def handle(services: Services, request: ShareRequest, context: RequestContext) -> Response:
    return services.shares.submit(request, context.api_version)
