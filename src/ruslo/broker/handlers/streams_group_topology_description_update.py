"""StreamsGroupTopologyDescriptionUpdate v0 (KIP-1331): a member describes the topology of its application."""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)


def handle(
    services: Services, request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext
) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return services.groups.submit(request.group_id, request, context)
