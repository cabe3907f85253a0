"""ConsumerGroupHeartbeat v0-1 (KIP-848): joins, leaves, renews the session and acknowledges revocations.

v1: the client generates its member id, and may subscribe by a regular expression.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest


def handle(
    services: Services, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Message | Awaitable[Message]:
    return services.groups.submit(request.group_id, request, context)
