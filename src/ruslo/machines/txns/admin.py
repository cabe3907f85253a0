"""ListTransactions and DescribeTransactions, for the ids of one shard.

ListTransactions: v1 filters by duration (KIP-994); v2 filters by a pattern of ids (KIP-1152).
"""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.txns.records import by_topic
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import STATE_BY_NAME
from ruslo.machines.txns.transaction import Transaction
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse
from ruslo.protocol.messages.list_transactions_response import TransactionState as ListedTransaction


def list_transactions(state: ShardState, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Raises KafkaError for an invalid pattern."""
    pattern = request.transactional_id_pattern
    matches = state.compile_pattern(pattern) if pattern else None
    states = {STATE_BY_NAME.get(name) for name in request.state_filters}
    producers = set(request.producer_id_filters)
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATE_BY_NAME],
        transaction_states=[
            ListedTransaction(
                transactional_id=each.id,
                producer_id=each.metadata.producer_id,
                transaction_state=each.metadata.state.display_name,
            )
            for each in _written(state.transactions.values())
            if (not states or each.metadata.state in states)
            and (not producers or each.metadata.producer_id in producers)
            and _is_older(state, each, request.duration_filter)
            and (matches is None or matches(each.id))
        ],
    )


def describe_transactions(
    state: ShardState, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_described(state, each) for each in request.transactional_ids]
    )


def _described(state: ShardState, transactional_id: str) -> TransactionState:
    transaction = state.transactions.get(transactional_id)
    if transaction is None or not transaction.exists:
        return TransactionState(
            error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id
        )
    metadata = transaction.metadata
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=metadata.state.display_name,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic(metadata.partitions)
        ],
    )


def _written(transactions: Iterable[Transaction]) -> Iterable[Transaction]:
    return (each for each in transactions if each.exists)


def _is_older(state: ShardState, transaction: Transaction, duration_ms: int) -> bool:
    """The duration filter of Kafka: in every state, and an id without a start time has no upper bound."""
    return duration_ms < 0 or state.wall_ms - transaction.metadata.start_ms > duration_ms
