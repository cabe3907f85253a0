"""DescribeTransactions v0 (KIP-664): state and partitions of transactions that this node coordinates."""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)


async def handle(
    services: Services, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    transactions = services.transactions
    parts = by_partition(transactions, filter(None, dict.fromkeys(request.transactional_ids)), str)
    answers = await all_responses(
        [
            transactions.submit_to(
                partition, DescribeTransactionsRequest(transactional_ids=ids), context.api_version
            )
            for partition, ids in parts.items()
        ],
        DescribeTransactionsResponse,
    )
    states = {state.transactional_id: state for answer in answers for state in answer.transaction_states}
    states[""] = TransactionState(transactional_id="", error_code=ErrorCode.INVALID_REQUEST)
    return DescribeTransactionsResponse(
        transaction_states=[states[each] for each in request.transactional_ids]
    )
