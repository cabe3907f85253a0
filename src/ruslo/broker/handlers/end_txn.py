"""EndTxn v0-5: commits or aborts. v2: PRODUCER_FENCED. v5: the response has the next epoch (KIP-890)."""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.end_txn_request import EndTxnRequest


def handle(services: Services, request: EndTxnRequest, context: RequestContext) -> Response:
    context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    return services.transactions.submit(request.transactional_id, request, context.api_version)
