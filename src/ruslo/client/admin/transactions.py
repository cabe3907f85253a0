"""Transactions: list, describe, fence, and abort hanging ones with a marker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinated, Coordinators
from ruslo.client.wire.idempotent import ProducerIdAndEpoch
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import check_code, error_of, result_of
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
"""States in which partitions may have records that hold back read_committed consumers."""

_DURATION_FILTER_VERSION = 1
"""The first version of ListTransactions with a duration filter (KIP-994)."""
_PATTERN_FILTER_VERSION = 2
"""The first version of ListTransactions with a pattern of transactional ids (KIP-1152)."""
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
    """None for an id that never started a transaction."""
    partitions: tuple[TopicPartition, ...]
    """Partitions whose marker is not written yet; empty when the transaction is complete."""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


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
        """The transactional ids of all coordinators that match every given filter.

        ``longer_than_ms`` compares the start of the last transaction, in any state.
        ``pattern`` is an RE2 regular expression that matches the whole id.
        """
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=_ANY_DURATION if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )
        min_version = 0 if longer_than_ms is None else _DURATION_FILTER_VERSION
        if pattern:
            min_version = _PATTERN_FILTER_VERSION

        async def list_at(node_id: int) -> list[TransactionListing]:
            response = await self._cluster.node(
                node_id, request, ListTransactionsResponse, min_version=min_version
            )
            problem = f"broker {node_id} cannot list its transactions"
            if response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
                problem = f"{pattern!r} is not a valid RE2 regular expression"
            check_code(response.error_code, problem)
            return [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
                for each in response.transaction_states
            ]

        # Two brokers list an id whose coordinator moves between the two requests.
        found = {each.transactional_id: each for each in await self._cluster.each_broker(list_at)}
        return [found[transactional_id] for transactional_id in sorted(found)]

    async def describe(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """The transaction, or the error, by transactional id."""

        async def query(node: int, owned: Sequence[str]) -> dict[str, TransactionDescription | KafkaError]:
            response = await self._cluster.node(
                node,
                DescribeTransactionsRequest(transactional_ids=[*owned]),
                DescribeTransactionsResponse,
            )
            return {state.transactional_id: _described(state, node) for state in response.transaction_states}

        return await self._coordinators.each([*dict.fromkeys(transactional_ids)], query)

    async def fence(self, transactional_id: str, timeout_ms: int) -> ProducerIdAndEpoch:
        """Fence the id's producer and abort its open transaction; returns when the abort is complete.

        This is what ``init_transactions`` of a new producer does: the old producer gets a fatal error. An id
        that does not exist is created. ``timeout_ms`` becomes the id's transaction timeout.
        """
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

        async def query(node: int) -> ProducerIdAndEpoch | KafkaError:
            response = await self._cluster.node(node, request, InitProducerIdResponse)
            if response.error_code:
                # CONCURRENT_TRANSACTIONS is retriable and means that the abort is in progress.
                return error_of(response.error_code, _problem(transactional_id))
            return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

        return await self._coordinators.one(transactional_id, query)

    async def write_abort_marker(
        self, partition: TopicPartition, producer: ProducerIdAndEpoch, coordinator_epoch: int
    ) -> None:
        """Abort a producer's transaction in one partition without its coordinator.

        Use it only for hanging transactions: a live one would be aborted here and committed elsewhere.
        """
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=coordinator_epoch,
            # Version 2 requires an epoch above the current one (KIP-890), which only coordinators assign.
            transaction_version=0,
        )

        rejection = (
            f"{partition} rejects the marker of producer {producer.producer_id} with epoch "
            f"{producer.producer_epoch}"
        )

        async def query(
            node: int, owned: Sequence[TopicPartition]
        ) -> dict[TopicPartition, KafkaError | None]:
            response = await self._cluster.node(
                node, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
            )
            return {
                TopicPartition(topic.name, part.partition_index): result_of(part.error_code, rejection, None)
                for result in response.markers
                for topic in result.topics
                for part in topic.partitions
            }

        await self._cluster.each_leader([partition], query)


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
