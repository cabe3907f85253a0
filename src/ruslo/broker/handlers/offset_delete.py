"""OffsetDelete v0 (KIP-496): deletes offsets of topics that no member of the group subscribes to."""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest


def handle(services: Services, request: OffsetDeleteRequest, context: RequestContext) -> Response:
    return services.groups.submit(request.group_id, request, context)
