"""SyncGroup v0-5: the leader sends the assignment, and every member receives its part.

v3: static members (KIP-345). v5: protocol type and name must match those of the group (KIP-559).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.groups.classic.sync import lacks_protocol
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest


def handle(services: Services, request: SyncGroupRequest, context: RequestContext) -> Response:
    if lacks_protocol(request, context.api_version):
        # As in Kafka, this is checked before the permissions.
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "protocol type and name are required from v5 on"
        )
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return services.groups.submit(request.group_id, request, context)
