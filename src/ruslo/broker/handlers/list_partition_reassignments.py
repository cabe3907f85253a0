"""ListPartitionReassignments v0 (KIP-455): the reassignments in progress."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ruslo.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse


async def handle(
    services: NodeServices, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    assert isinstance(response, ListPartitionReassignmentsResponse)
    return response
