"""WriteTxnMarkers v1-2: writes transaction markers to partitions that this broker leads.

Transaction coordinators send it, and administrators to abort a hanging transaction. v2: the transaction
version, which determines how strictly epochs are compared (KIP-1228).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest


def handle(services: Services, request: WriteTxnMarkersRequest, context: RequestContext) -> Response:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, audited=False):
        context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    return services.markers.handle(request)
