"""Transactions: list, describe, and end those that nobody else will end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinated, Coordinators, value_of
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import check_code, error_of
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse
from ruslo.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ruslo.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

EMPTY = "Empty"
ONGOING = "Ongoing"
PREPARE_COMMIT = "PrepareCommit"
PREPARE_ABORT = "PrepareAbort"
COMPLETE_COMMIT = "CompleteCommit"
COMPLETE_ABORT = "CompleteAbort"

STATES = (EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT)
OPEN_STATES = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
"""In which partitions may have records that readers of committed data wait for."""

_BY_DURATION = 1
_BY_PATTERN = 2
"""Versions of ListTransactions (KIP-994, KIP-1152)."""
_ANY_DURATION = -1


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    """None for an id that never began a transaction."""
    partitions: tuple[TopicPartition, ...]
    """Those whose marker is not written yet; none when the transaction is complete."""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class ProducerIdentity(NamedTuple):
    producer_id: int
    producer_epoch: int


class Transactions:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster, Coordinated.TRANSACTION)

    async def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers that pass every filter given.

        ``longer_than_ms`` looks at the beginning of the last transaction, whatever the state is now.
        ``pattern`` is a regular expression (RE2) for the whole id.
        """
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=_ANY_DURATION if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )
        needed = _BY_PATTERN if pattern else _BY_DURATION if longer_than_ms is not None else 0

        async def of_node(node_id: int) -> list[TransactionListing]:
            response = await self._cluster.node(
                node_id, request, ListTransactionsResponse, min_version=needed
            )
            check_code(response.error_code, _list_problem(response.error_code, node_id, pattern))
            return [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
                for each in response.transaction_states
            ]

        async def attempt() -> dict[str, TransactionListing]:
            nodes = (await self._cluster.metadata([])).nodes
            found = await asyncio.gather(*(of_node(node_id) for node_id in nodes))
            # An id whose coordinator moves while we ask may be listed by two brokers.
            return {each.transactional_id: each for listed in found for each in listed}

        transactions = await self._cluster.retrying(attempt)
        return [transactions[transactional_id] for transactional_id in sorted(transactions)]

    async def describe(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """By id the transaction, or why it cannot be described."""

        async def ask(node: int, owned: Sequence[str]) -> dict[str, TransactionDescription | KafkaError]:
            response = await self._cluster.node(
                node,
                DescribeTransactionsRequest(transactional_ids=[*owned]),
                DescribeTransactionsResponse,
            )
            return {state.transactional_id: _described(state, node) for state in response.transaction_states}

        return await self._coordinators.each([*dict.fromkeys(transactional_ids)], ask)

    async def fence(self, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
        """Take the id from its producer, and abort what it has open; returns when that is done.

        This is what a new producer does that comes with the id: the old one gets a fatal error. An id that
        does not exist is made. ``timeout_ms`` becomes the timeout of the id's transactions.
        """
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

        async def ask(node: int, owned: Sequence[str]) -> dict[str, ProducerIdentity | KafkaError]:
            response = await self._cluster.node(node, request, InitProducerIdResponse)
            if response.error_code:
                # CONCURRENT_TRANSACTIONS, which passes, says that the abort is under way.
                return {transactional_id: error_of(response.error_code, _problem(transactional_id))}
            return {transactional_id: ProducerIdentity(response.producer_id, response.producer_epoch)}

        return value_of((await self._coordinators.each([transactional_id], ask))[transactional_id])

    async def write_abort_marker(
        self, partition: TopicPartition, producer: ProducerIdentity, coordinator_epoch: int
    ) -> None:
        """End the transaction that a producer has open in a partition, behind its coordinator's back.

        Only for transactions that hang: one that lives would lose its records here and keep them elsewhere.
        """
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=coordinator_epoch,
            # Version 2 asks for an epoch above the known one (KIP-890), which only coordinators can give.
            transaction_version=0,
        )

        async def ask(node: int, owned: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
            response = await self._cluster.node(
                node, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
            )
            return {
                TopicPartition(topic.name, part.partition_index): (
                    error_of(part.error_code, f"{partition} takes no marker of {_shown(producer)}")
                    if part.error_code
                    else None
                )
                for result in response.markers
                for topic in result.topics
                for part in topic.partitions
            }

        await self._cluster.each_leader([partition], ask)


def _described(state: TransactionState, node: int) -> TransactionDescription | KafkaError:
    if state.error_code:
        return error_of(state.error_code, _problem(state.transactional_id, state.error_code))
    return TransactionDescription(
        state.transactional_id,
        node,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
        tuple(
            sorted(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions)
        ),
    )


def _problem(transactional_id: str, code: int = ErrorCode.NONE) -> str:
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return f"transactional id {transactional_id!r} does not exist"
    return f"transactional id {transactional_id!r}"


def _list_problem(code: int, node_id: int, pattern: str | None) -> str:
    if code == ErrorCode.INVALID_REGULAR_EXPRESSION:
        return f"{pattern!r} is no regular expression (RE2)"
    return f"broker {node_id} cannot list its transactions"


def _shown(producer: ProducerIdentity) -> str:
    return f"producer {producer.producer_id} with epoch {producer.producer_epoch}"
