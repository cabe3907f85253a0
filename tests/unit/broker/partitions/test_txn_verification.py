from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from ruslo.broker.partitions.txn_verification import NO_NODE, CoordinatorAsks, TransactionAsk
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


def told(request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """The same answer for every partition."""
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
    """Two nodes; ids that begin with ``x`` belong to nobody. Answers wait until the test gives them."""

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

    async def answer(self, at: int, code: ErrorCode | None = ErrorCode.NONE) -> None:
        if code is None:
            self._promises[at].set_exception(ConnectionError("gone"))
        else:
            self._promises[at].set_result(told(self.sent[at][1], code))
        await asyncio.sleep(0)

    def asked(self, at: int) -> list[tuple[str, int, list[int]]]:
        """Ids, epochs and partitions of one request."""
        return [
            (
                each.transactional_id,
                each.producer_epoch,
                [index for t in each.topics for index in t.partitions],
            )
            for each in self.sent[at][1].transactions
        ]


class Asker:
    def __init__(self, asks: CoordinatorAsks) -> None:
        self._asks = asks
        self.answers: list[list[ErrorCode]] = []

    def ask(self, transactional_id: str, *partitions: int, epoch: int = 0, verify: bool = False) -> int:
        """Gives the place of the answer to come."""
        at = len(self.answers)
        self.answers.append([])

        def answered(codes: Codes) -> None:
            self.answers[at] = [codes[TopicPartition("t", index)] for index in partitions]

        names = frozenset(_names(partitions))
        self._asks.ask(TransactionAsk(transactional_id, 1, epoch, verify, names, answered))
        return at


def _names(partitions: Iterable[int]) -> Iterable[TopicPartition]:
    return (TopicPartition("t", index) for index in partitions)


async def test_one_request_at_a_time_goes_to_each_coordinator() -> None:
    coordinators = Coordinators()
    asker = Asker(CoordinatorAsks(coordinators))
    asker.ask("aa", 0)
    asker.ask("bb", 1)
    asker.ask("b", 2)
    asker.ask("cc", 3)
    asker.ask("bb", 4)
    assert [node for node, _ in coordinators.sent] == [0, 1]
    await coordinators.answer(0)
    assert coordinators.asked(2) == [("bb", 0, [1, 4]), ("cc", 0, [3])]
    await coordinators.answer(2)
    await coordinators.answer(1, ErrorCode.PRODUCER_FENCED)
    none, fenced = [ErrorCode.NONE], [ErrorCode.PRODUCER_FENCED]
    assert asker.answers == [none, none, fenced, none, none]
    asker.ask("aa", 0, 1)
    await coordinators.answer(3)
    assert asker.answers[-1] == [ErrorCode.NONE, ErrorCode.NONE]


async def test_nobody_to_ask() -> None:
    coordinators = Coordinators()
    asker = Asker(CoordinatorAsks(coordinators))
    asker.ask("x", 0)
    assert asker.answers == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]]
    asker.ask("aa", 0)
    asker.ask("aa", 1)
    await coordinators.answer(0, None)
    assert asker.answers[1] == [ErrorCode.NETWORK_EXCEPTION]
    await coordinators.answer(1)
    assert asker.answers[2] == [ErrorCode.NONE]


async def test_a_newer_epoch_takes_the_place_of_an_older_one() -> None:
    coordinators = Coordinators()
    asker = Asker(CoordinatorAsks(coordinators))
    asker.ask("busy", 0)
    older = asker.ask("aa", 0, epoch=1)
    newer = asker.ask("aa", 1, epoch=2)
    late = asker.ask("aa", 2, epoch=1)
    assert asker.answers[older] == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert asker.answers[late] == [ErrorCode.INVALID_PRODUCER_EPOCH]
    other_way = asker.ask("aa", 3, epoch=2, verify=True)
    assert asker.answers[newer] == [ErrorCode.NETWORK_EXCEPTION]
    await coordinators.answer(0)
    assert coordinators.asked(1) == [("aa", 2, [3])]
    await coordinators.answer(1)
    assert asker.answers[other_way] == [ErrorCode.NONE]
