"""DeleteAcls v1-3 (KIP-140). Without an authorizer each filter is SECURITY_DISABLED, as in Kafka."""

from __future__ import annotations

from ruslo.broker.handlers import controller_changes
from ruslo.broker.handlers.describe_acls import require_authorizer
from ruslo.broker.handlers.services import ControllerServices
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message
from ruslo.protocol.messages.delete_acls_request import DeleteAclsRequest


async def handle(
    services: ControllerServices, request: DeleteAclsRequest, context: RequestContext
) -> Message:
    require_authorizer(services)
    return await controller_changes.handle(services, request, context)
