"""ShareGroupHeartbeat v1 (KIP-932): joins and leaves share groups, and renews the session."""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest


def handle(services: Services, request: ShareGroupHeartbeatRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    for topic in request.subscribed_topic_names or ():
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
    return services.groups.submit(request.group_id, request, context)
