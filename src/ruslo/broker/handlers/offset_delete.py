"""OffsetDelete v0 (KIP-496): deletes offsets of topics that no member of the group subscribes to."""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest


def handle(
    services: Services, request: OffsetDeleteRequest, context: RequestContext
) -> Message | Awaitable[Message]:
    return services.groups.submit(request.group_id, request, context)
