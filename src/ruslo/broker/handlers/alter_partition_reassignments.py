"""AlterPartitionReassignments v0-1 (KIP-455). v1 can disallow a change of the replication factor
(KIP-860)."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ruslo.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse


async def handle(
    services: NodeServices, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response
