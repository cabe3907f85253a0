"""AddPartitionsToTxn v0-5: adds partitions to transactions.

v0-3 come from clients, with one transaction; v2: PRODUCER_FENCED. v4-5 come from partition leaders, with
several transactions, and may only verify (KIP-890).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.txns.add_partitions import BATCHED_MIN_VERSION
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse


def handle(services: Services, request: AddPartitionsToTxnRequest, context: RequestContext) -> Response:
    transactions, version = services.transactions, context.api_version
    if version < BATCHED_MIN_VERSION:
        return transactions.submit(request.v3_and_below_transactional_id, request, version)
    if not request.transactions:
        return AddPartitionsToTxnResponse()
    return transactions.add_partitions_here(request, version)
