"""ConsumerGroupHeartbeat v0-1 (KIP-848): joins, leaves, renews the session and acknowledges revocations.

v1: the client generates its member id, and may subscribe by a regular expression.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest


def handle(services: Services, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    for topic in request.subscribed_topic_names or ():
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
    return services.groups.submit(request.group_id, request, context)
