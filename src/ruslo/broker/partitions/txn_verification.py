"""Questions of partition leaders to transaction coordinators (AddPartitionsToTxn v5, KIP-890).

Before a transaction begins in a partition, its leader asks the transaction's coordinator: whether a version 1
client has added the partition (verify only), or to add it for a version 2 client. What comes together goes in
one request to each coordinator, and only one is under way to each: questions that come meanwhile are gathered
for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
class TransactionAsk:
    transactional_id: str
    producer_id: int
    epoch: int
    verify_only: bool
    partitions: frozenset[TopicPartition]
    answer: Callable[[Mapping[TopicPartition, ErrorCode]], None]
    """Called once, maybe before ``ask`` returns, with a code for each partition."""

    def refuse(self, code: ErrorCode) -> None:
        self.answer(dict.fromkeys(self.partitions, code))


class CoordinatorChannel(Protocol):
    """The way to coordinators."""

    def node_of(self, transactional_id: str) -> int:
        """The node that coordinates it, NO_NODE if none does for now."""
        ...

    def add_partitions(
        self, node: int, request: AddPartitionsToTxnRequest
    ) -> Message | asyncio.Future[Message]:
        """Send a version 5 request. The future may fail with any exception if the node cannot be reached."""
        ...


VerifyHere: TypeAlias = Callable[[str, int, int, TopicPartition], ErrorCode | None]
"""Transactional id, producer id, epoch, partition; None if no coordinator of this node can say."""


class CoordinatorAsks:
    def __init__(self, channel: CoordinatorChannel, verify_here: VerifyHere | None = None) -> None:
        """``verify_here``: the short way to a coordinator on the same node."""
        self._channel = channel
        self._verify_here = verify_here
        self._queues: dict[int, dict[str, list[TransactionAsk]]] = {}
        """By node and transactional id: what goes into the next request. A node is here while one is sent."""

    def verify_here(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode | None:
        """What ``ask`` would be answered, without the request; None if it takes one."""
        if self._verify_here is None:
            return None
        return self._verify_here(transactional_id, producer_id, epoch, partition)

    def ask(self, ask: TransactionAsk) -> None:
        node = self._channel.node_of(ask.transactional_id)
        if node == NO_NODE:
            ask.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        queue = self._queues.get(node)
        if queue is not None:
            self._enqueue(queue, ask)
            return
        self._queues[node] = {}
        self._send(node, {ask.transactional_id: [ask]})

    def _enqueue(self, queue: dict[str, list[TransactionAsk]], ask: TransactionAsk) -> None:
        queued = queue.get(ask.transactional_id)
        if queued is None:
            queue[ask.transactional_id] = [ask]
            return
        first = queued[0]
        if (first.producer_id, first.epoch, first.verify_only) == (
            ask.producer_id,
            ask.epoch,
            ask.verify_only,
        ):
            queued.append(ask)
        elif first.producer_id == ask.producer_id and first.epoch > ask.epoch:
            ask.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
        else:
            queue[ask.transactional_id] = [ask]
            older = first.producer_id == ask.producer_id and first.epoch < ask.epoch
            for each in queued:
                each.refuse(ErrorCode.INVALID_PRODUCER_EPOCH if older else ErrorCode.NETWORK_EXCEPTION)

    def _send(self, node: int, asks: dict[str, list[TransactionAsk]]) -> None:
        request = AddPartitionsToTxnRequest(
            transactions=[_transaction(transactional_id, each) for transactional_id, each in asks.items()]
        )
        answer = self._channel.add_partitions(node, request)
        if isinstance(answer, asyncio.Future) and not answer.done():
            answer.add_done_callback(lambda done: self._answered(node, asks, done))
        else:
            self._answered(node, asks, answer)

    def _answered(
        self,
        node: int,
        asks: dict[str, list[TransactionAsk]],
        answer: Message | asyncio.Future[Message],
    ) -> None:
        queue = self._queues.pop(node)
        if queue:
            # Sent before the answers are handed on, so that no new question overtakes it.
            self._queues[node] = {}
        codes: dict[tuple[str, TopicPartition], ErrorCode] = {}
        otherwise = ErrorCode.NETWORK_EXCEPTION
        if isinstance(answer, asyncio.Future):
            failed = answer.cancelled() or answer.exception() is not None
            answer = AddPartitionsToTxnResponse() if failed else answer.result()
        assert isinstance(answer, AddPartitionsToTxnResponse)
        if answer.error_code:
            otherwise = ErrorCode(answer.error_code)
        for result in answer.results_by_transaction:
            for topic in result.topic_results:
                for each in topic.results_by_partition:
                    partition = TopicPartition(topic.name, each.partition_index)
                    codes[result.transactional_id, partition] = ErrorCode(each.partition_error_code)
        for transactional_id, asked in asks.items():
            for ask in asked:
                ask.answer({each: codes.get((transactional_id, each), otherwise) for each in ask.partitions})
        if queue:
            self._send(node, queue)


def _transaction(transactional_id: str, asks: list[TransactionAsk]) -> AddPartitionsToTxnTransaction:
    first = asks[0]
    partitions = frozenset[TopicPartition]().union(*(ask.partitions for ask in asks))
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=first.producer_id,
        producer_epoch=first.epoch,
        verify_only=first.verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in by_topic(partitions)
        ],
    )
