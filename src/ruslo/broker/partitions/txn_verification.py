"""Verification of transactions by partition leaders (AddPartitionsToTxn v5, KIP-890).

Before a transaction begins in a partition, its leader sends a request to the transaction's coordinator. For a
version 1 client it verifies that the client has added the partition; for a version 2 client it adds the
partition. Verifications that arrive together share one request to each coordinator. One request to each
coordinator is in flight at a time: later verifications wait for the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ruslo.machines.txns.records import by_topic
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

NO_NODE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    """False: add the partitions to the transaction."""
    partitions: frozenset[TopicPartition]
    complete: Callable[[Mapping[TopicPartition, ErrorCode]], None]
    """Called once with a code for each partition, possibly before ``TransactionVerifier.verify`` returns."""

    def fail(self, code: ErrorCode) -> None:
        self.complete(dict.fromkeys(self.partitions, code))


class CoordinatorChannel(Protocol):
    """Sends requests to transaction coordinators."""

    def node_of(self, transactional_id: str) -> int:
        """The node of the coordinator, NO_NODE while there is none."""
        ...

    def add_partitions(
        self, node: int, request: AddPartitionsToTxnRequest
    ) -> Message | asyncio.Future[Message]:
        """Send a version 5 request. The future may fail with any exception if the node cannot be reached."""
        ...


LocalVerification: TypeAlias = Callable[[str, int, int, TopicPartition], ErrorCode | None]
"""Transactional id, producer id, producer epoch, partition; None if this node is not its coordinator."""


@dataclass(slots=True, eq=False)
class TransactionVerifier:
    _channel: CoordinatorChannel
    verify_locally: LocalVerification = lambda *_: None
    """The result of ``verify`` without a request; None if it needs one."""
    _queues: dict[int, dict[str, list[Verification]]] = field(default_factory=dict)
    """The verifications of the next request by node and transactional id; a node is a key while a request to
    it is in flight."""

    def verify(self, verification: Verification) -> None:
        node = self._channel.node_of(verification.transactional_id)
        if node == NO_NODE:
            verification.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        queue = self._queues.get(node)
        if queue is not None:
            self._enqueue(queue, verification)
            return
        self._queues[node] = {}
        self._send(node, {verification.transactional_id: [verification]})

    def _enqueue(self, queue: dict[str, list[Verification]], verification: Verification) -> None:
        """A request has one producer for each transactional id: the newest one stays in the queue."""
        queued = queue.get(verification.transactional_id)
        if queued is None:
            queue[verification.transactional_id] = [verification]
            return
        first = queued[0]
        if (first.producer_id, first.producer_epoch, first.verify_only) == (
            verification.producer_id,
            verification.producer_epoch,
            verification.verify_only,
        ):
            queued.append(verification)
            return
        same_producer = first.producer_id == verification.producer_id
        if same_producer and first.producer_epoch > verification.producer_epoch:
            verification.fail(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        queue[verification.transactional_id] = [verification]
        is_older = same_producer and first.producer_epoch < verification.producer_epoch
        for each in queued:
            each.fail(ErrorCode.INVALID_PRODUCER_EPOCH if is_older else ErrorCode.NETWORK_EXCEPTION)

    def _send(self, node: int, sent: dict[str, list[Verification]]) -> None:
        request = AddPartitionsToTxnRequest(
            transactions=[_transaction(transactional_id, each) for transactional_id, each in sent.items()]
        )
        response = self._channel.add_partitions(node, request)
        if isinstance(response, asyncio.Future) and not response.done():
            response.add_done_callback(lambda done: self._on_response(node, sent, done))
        else:
            self._on_response(node, sent, response)

    def _on_response(
        self,
        node: int,
        sent: dict[str, list[Verification]],
        response: Message | asyncio.Future[Message],
    ) -> None:
        queue = self._queues.pop(node)
        if queue:
            # It is sent below; until then new verifications wait behind it.
            self._queues[node] = {}
        codes: dict[tuple[str, TopicPartition], ErrorCode] = {}
        default = ErrorCode.NETWORK_EXCEPTION
        if isinstance(response, asyncio.Future):
            failed = response.cancelled() or response.exception() is not None
            response = AddPartitionsToTxnResponse() if failed else response.result()
        assert isinstance(response, AddPartitionsToTxnResponse)
        if response.error_code:
            default = ErrorCode(response.error_code)
        for result in response.results_by_transaction:
            for topic in result.topic_results:
                for each in topic.results_by_partition:
                    partition = TopicPartition(topic.name, each.partition_index)
                    codes[result.transactional_id, partition] = ErrorCode(each.partition_error_code)
        for transactional_id, verifications in sent.items():
            for verification in verifications:
                verification.complete(
                    {each: codes.get((transactional_id, each), default) for each in verification.partitions}
                )
        if queue:
            self._send(node, queue)


def _transaction(transactional_id: str, verifications: list[Verification]) -> AddPartitionsToTxnTransaction:
    first = verifications[0]
    partitions = frozenset[TopicPartition]().union(*(each.partitions for each in verifications))
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        verify_only=first.verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in by_topic(partitions)
        ],
    )
