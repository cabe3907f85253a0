"""Heartbeat v0-4: renews a classic member's session; an error reports a rebalance. v3: static members."""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest


def handle(services: Services, request: HeartbeatRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return services.groups.submit(request.group_id, request, context)
