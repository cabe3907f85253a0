"""WriteTxnMarkers v1-2: the end of transactions, for partitions that this broker leads.

From transaction coordinators, and from administrators who free a partition of a transaction that hangs.
v2: the transaction version that decides how strictly epochs are compared (KIP-1228).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest


def handle(
    services: Services, request: WriteTxnMarkersRequest, context: RequestContext
) -> Message | Awaitable[Message]:
    return services.markers.handle(request)
