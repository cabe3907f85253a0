"""SyncGroup v0-5: the leader sends the assignment, and every member receives its part.

v3: static members (KIP-345). v5: protocol type and name must match those of the group (KIP-559).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest


def handle(services: Services, request: SyncGroupRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return services.groups.submit(request.group_id, request, context)
