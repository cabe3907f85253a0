"""Scripted responses of a broker about producers and transactions, which a test can change at any time."""

from __future__ import annotations

from collections.abc import Callable

from ruslo.model.errors import ErrorCode
from ruslo.protocol.message import Message
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest
from ruslo.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse
from ruslo.protocol.messages.list_transactions_response import TransactionState as Listed
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedResponse, all_versions


class TxnScript:
    """Node 1 leads partition 0 of every topic and coordinates every id."""

    def __init__(self, limits: dict[int, tuple[int, int]] | None = None) -> None:
        self.limits = limits
        self.transactions: dict[str, TransactionState] = {}
        self.producers: list[ProducerState] = []
        """The active producers of every partition."""
        self.responses: dict[type[Message], Callable[[ReceivedRequest], ScriptedResponse]] = {}
        """Scripts by request type; they replace the default responses."""

    def add(self, transactional_id: str, producer_id: int, state: str, *topics: str) -> None:
        self.transactions[transactional_id] = TransactionState(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=3,
            transaction_state=state,
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=1000,
            topics=[TopicData(topic=topic, partitions=[0]) for topic in topics],
        )

    def open(self, producer_id: int, start_offset: int) -> None:
        self.producers.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=3,
                last_sequence=0,
                last_timestamp=1000,
                coordinator_epoch=-1,
                current_txn_start_offset=start_offset,
            )
        )

    def __call__(self, request: ReceivedRequest) -> ScriptedResponse:
        message = request.message
        if request.api_key == ApiVersionsRequest.API_KEY:
            return all_versions(self.limits)
        if type(message) in self.responses:
            return self.responses[type(message)](request)
        if isinstance(message, FindCoordinatorRequest):
            keys = message.coordinator_keys
            return FindCoordinatorResponse(coordinators=[Coordinator(key=key, node_id=1) for key in keys])
        if isinstance(message, DescribeProducersRequest):
            return self._producers(message)
        if isinstance(message, ListTransactionsRequest):
            return self._list(message)
        if isinstance(message, DescribeTransactionsRequest):
            return self._describe(message)
        raise KeyError

    def _producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        PartitionResponse(partition_index=index, active_producers=[*self.producers])
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    def _list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            transaction_states=[
                Listed(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.transaction_state,
                )
                for each in self.transactions.values()
                if not request.producer_id_filters or each.producer_id in request.producer_id_filters
            ]
        )

    def _describe(self, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[
                self.transactions.get(each)
                or TransactionState(transactional_id=each, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
                for each in request.transactional_ids
            ]
        )
