"""ListTransactions v0-2 (KIP-664): the transactions that this node coordinates.

v1: a filter by duration (KIP-994). v2: a filter by a pattern of ids (KIP-1152).
"""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.groups.consumer.patterns import check_pattern
from ruslo.machines.txns.states import STATE_BY_NAME
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse


async def handle(
    services: Services, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    if request.transactional_id_pattern:
        check_pattern(request.transactional_id_pattern)
    transactions = services.transactions
    answers = await all_responses(
        [
            transactions.submit_to(partition, request, context.api_version)
            for partition in transactions.partitions()
        ],
        ListTransactionsResponse,
    )
    for answer in answers:
        if answer.error_code:
            # A partial list would look complete.
            return ListTransactionsResponse(error_code=answer.error_code)
    return ListTransactionsResponse(
        unknown_state_filters=[
            name for name in dict.fromkeys(request.state_filters) if name not in STATE_BY_NAME
        ],
        transaction_states=[
            state
            for answer in answers
            for state in answer.transaction_states
            if context.allows(
                Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id, audited=False
            )
        ],
    )
