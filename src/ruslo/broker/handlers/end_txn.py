"""EndTxn v0-5: commits or aborts. v2: PRODUCER_FENCED. v5: the response has the next epoch (KIP-890)."""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message
from ruslo.protocol.messages.end_txn_request import EndTxnRequest


def handle(
    services: Services, request: EndTxnRequest, context: RequestContext
) -> Message | Awaitable[Message]:
    return services.transactions.submit(request.transactional_id, request, context.api_version)
