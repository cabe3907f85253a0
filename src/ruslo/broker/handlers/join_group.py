"""JoinGroup v0-9: joins a classic group; the response is sent when the rebalance completes.

v1: a separate rebalance timeout. v4: a new member gets its id first and joins with it (KIP-394). v5: static
members (KIP-345). v7: the response contains the protocol type. v9: a static leader that rejoins skips the
assignment (KIP-814).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.join_group_request import JoinGroupRequest


def handle(services: Services, request: JoinGroupRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return services.groups.submit(request.group_id, request, context)
