"""Verification of transactions: how requests to coordinators are shared and queued."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ruslo.broker.partitions.txn_verification import NO_NODE, TransactionVerifier, Verification
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

Codes = Mapping[TopicPartition, ErrorCode]


def response_to(request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """A response with the same code for every partition."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=code
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.transactions
        ]
    )


class Coordinators:
    """Two nodes. Ids that begin with ``x`` have no coordinator. Responses wait for the test."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, AddPartitionsToTxnRequest]] = []
        self._promises: list[asyncio.Future[Message]] = []

    def node_of(self, transactional_id: str) -> int:
        return NO_NODE if transactional_id.startswith("x") else len(transactional_id) % 2

    def add_partitions(self, node: int, request: AddPartitionsToTxnRequest) -> asyncio.Future[Message]:
        self.sent.append((node, request))
        promise: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._promises.append(promise)
        return promise

    async def respond(self, at: int, code: ErrorCode | None = ErrorCode.NONE) -> None:
        if code is None:
            self._promises[at].set_exception(ConnectionError("gone"))
        else:
            self._promises[at].set_result(response_to(self.sent[at][1], code))
        await asyncio.sleep(0)

    def requested(self, at: int) -> list[tuple[str, int, list[int]]]:
        """The ids, epochs and partitions of a request."""
        return [
            (
                each.transactional_id,
                each.producer_epoch,
                [index for t in each.topics for index in t.partitions],
            )
            for each in self.sent[at][1].transactions
        ]


class Leader:
    def __init__(self, verifier: TransactionVerifier) -> None:
        self._verifier = verifier
        self.results: list[list[ErrorCode]] = []

    def verify(
        self, transactional_id: str, *partitions: int, epoch: int = 0, verify_only: bool = False
    ) -> int:
        """Return the index of the pending result."""
        at = len(self.results)
        self.results.append([])

        def complete(codes: Codes) -> None:
            self.results[at] = [codes[TopicPartition("t", index)] for index in partitions]

        names = frozenset(TopicPartition("t", index) for index in partitions)
        self._verifier.verify(Verification(transactional_id, 1, epoch, verify_only, names, complete))
        return at


async def test_one_request_to_each_coordinator_is_in_flight() -> None:
    coordinators = Coordinators()
    leader = Leader(TransactionVerifier(coordinators))
    leader.verify("aa", 0)
    leader.verify("bb", 1)
    leader.verify("b", 2)
    leader.verify("cc", 3)
    leader.verify("bb", 4)
    assert [node for node, _ in coordinators.sent] == [0, 1]
    await coordinators.respond(0)
    assert coordinators.requested(2) == [("bb", 0, [1, 4]), ("cc", 0, [3])]
    await coordinators.respond(2)
    await coordinators.respond(1, ErrorCode.PRODUCER_FENCED)
    none, fenced = [ErrorCode.NONE], [ErrorCode.PRODUCER_FENCED]
    assert leader.results == [none, none, fenced, none, none]
    leader.verify("aa", 0, 1)
    await coordinators.respond(3)
    assert leader.results[-1] == [ErrorCode.NONE, ErrorCode.NONE]


async def test_a_coordinator_is_unknown_or_unreachable() -> None:
    coordinators = Coordinators()
    leader = Leader(TransactionVerifier(coordinators))
    leader.verify("x", 0)
    assert leader.results == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]]
    leader.verify("aa", 0)
    leader.verify("aa", 1)
    await coordinators.respond(0, None)
    assert leader.results[1] == [ErrorCode.NETWORK_EXCEPTION]
    await coordinators.respond(1)
    assert leader.results[2] == [ErrorCode.NONE]


async def test_a_newer_epoch_replaces_an_older_one_in_the_queue() -> None:
    coordinators = Coordinators()
    leader = Leader(TransactionVerifier(coordinators))
    leader.verify("busy", 0)
    older = leader.verify("aa", 0, epoch=1)
    newer = leader.verify("aa", 1, epoch=2)
    late = leader.verify("aa", 2, epoch=1)
    assert leader.results[older] == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert leader.results[late] == [ErrorCode.INVALID_PRODUCER_EPOCH]
    verifies = leader.verify("aa", 3, epoch=2, verify_only=True)
    assert leader.results[newer] == [ErrorCode.NETWORK_EXCEPTION]
    await coordinators.respond(0)
    assert coordinators.requested(1) == [("aa", 2, [3])]
    await coordinators.respond(1)
    assert leader.results[verifies] == [ErrorCode.NONE]
