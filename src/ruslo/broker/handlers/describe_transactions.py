"""DescribeTransactions v0 (KIP-664): state and partitions of transactions that this node coordinates."""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
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
    wanted = dict.fromkeys(request.transactional_ids)
    allowed = [
        each for each in wanted if context.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each)
    ]
    parts = by_partition(transactions, filter(None, allowed), str)
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
    for state in states.values():
        state.topics = [
            each
            for each in state.topics
            if context.allows(Operation.DESCRIBE, ResourceType.TOPIC, each.topic)
        ]
    states[""] = TransactionState(transactional_id="", error_code=ErrorCode.INVALID_REQUEST)
    for each in wanted.keys() - set(allowed):
        states[each] = TransactionState(
            transactional_id=each, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    return DescribeTransactionsResponse(
        transaction_states=[states[each] for each in request.transactional_ids]
    )
