"""Requests of clients that the controller machine decides as a whole.

The response is sent when the change is committed and this node has applied it.

AlterPartitionReassignments v0-1 (KIP-455, KIP-860),
AlterUserScramCredentials v0 (KIP-554), ElectLeaders v0-2 (KIP-460), ExpireDelegationToken v1-2 and
RenewDelegationToken v1-2 (KIP-48), ListPartitionReassignments v0 (KIP-455), UnregisterBroker v0 (KIP-631).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import ControllerServices
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message


async def handle(services: ControllerServices, request: Message, context: RequestContext) -> Message:
    timeout_ms: int = getattr(request, "timeout_ms", 0)
    response = await services.controller.submit(request, context, timeout_ms=timeout_ms)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response
