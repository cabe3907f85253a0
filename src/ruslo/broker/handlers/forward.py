"""Requests that a broker forwards to the active controller as a whole (KIP-590).

AddRaftVoter v0-1 and RemoveRaftVoter v0 (KIP-853), DescribeQuorum v0-2 (KIP-595), UnregisterBroker v0
(KIP-631)."""

from __future__ import annotations

from ruslo.broker.controller.gateway import ControllerGateway
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message


async def handle(services: Services, request: Message, context: RequestContext) -> Message:
    gateway = services.controller
    assert isinstance(gateway, ControllerGateway), "a broker's controller is its gateway"
    return await gateway.forward(request, context)
