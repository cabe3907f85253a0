"""LeaveGroup v0-5: removes members of a group.

v3: several members, also static ones by an administrator (KIP-345). v5: a reason (KIP-800).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest


def handle(services: Services, request: LeaveGroupRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return services.groups.submit(request.group_id, request, context)
