"""Requests that a broker forwards to the active controller as a whole (KIP-590), which authorizes them.

The next request to this broker sees the change: the response waits until the broker has applied it.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message


async def handle(services: Services, request: Message, context: RequestContext) -> Message:
    return await services.gateway.forward(request, context)
