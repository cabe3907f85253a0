"""Batches that wait for a coordinator: their order, their errors, and what may happen meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.transactional_appends import TransactionalAppends, WaitingBatch
from ruslo.broker.partitions.txn_verification import CoordinatorAsks
from ruslo.config.broker import BrokerConfig
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.control import end_txn_batch
from ruslo.testing.single_node import single_node_properties
from tests.support.brokers.live_node import NOW, batch_of, until
from tests.unit.broker.partitions.bench import Bench, on_bench
from tests.unit.broker.partitions.test_txn_verification import Coordinators

TX = "aa"
PRODUCER = 5
V1, V2 = 11, 12


class Waiting:
    def __init__(self, path: Path) -> None:
        self.coordinators = Coordinators()
        config = BrokerConfig.from_properties(single_node_properties(path))
        asks = CoordinatorAsks(self.coordinators, lambda *asked: self.said_here)
        self.appends = TransactionalAppends(asks, lambda: config, SystemClock())
        self.outcomes: list[int | ErrorCode] = []
        """Base offsets, or why not, in the order in which they came."""
        self.said_here: ErrorCode | None = None
        """By a coordinator on the same node; None: it is elsewhere."""

    def send(self, partition: Partition, sequence: int, *, epoch: int = 0, version: int = V2) -> bool:
        """Whether the batch has to wait."""
        batch = batch_of(
            b"v",
            producer_id=PRODUCER,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        view = memoryview(batch)
        header = partition.check(view)
        try:
            guard = self.appends.append(TX, partition, view, header, version, NOW)
        except KafkaError as error:
            self._done(error)
            return False
        if isinstance(guard, Appended):
            self._done(guard)
            return False
        self.appends.submit(TX, [WaitingBatch(partition, view, header, guard, version, self._done)])
        return True

    def _done(self, outcome: Appended | Exception) -> None:
        if isinstance(outcome, Appended):
            self.outcomes.append(outcome.base_offset)
        else:
            assert isinstance(outcome, KafkaError)
            self.outcomes.append(outcome.code)


def test_batches_that_come_meanwhile_keep_their_order(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        for sequence in range(3):
            assert waiting.send(partition, sequence)
        assert len(waiting.coordinators.sent) == 1
        assert partition.log.end_offset == 0
        await waiting.coordinators.answer(0)
        assert waiting.outcomes == [0, 1, 2]
        assert not waiting.send(partition, 3)
        assert waiting.send(partition, 0, epoch=1)

    on_bench(tmp_path, story)


def test_a_coordinator_on_the_same_node_is_not_waited_for(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.said_here = ErrorCode.TRANSACTION_ABORTABLE
        assert not waiting.send(partition, 0, version=V1)
        waiting.said_here = ErrorCode.NONE
        assert not waiting.send(partition, 1, version=V1), "it must not overtake the one that was refused"
        assert not waiting.send(partition, 0, version=V1)
        waiting.said_here = ErrorCode.TRANSACTION_ABORTABLE
        assert not waiting.send(partition, 1, version=V1), "nobody is asked while the transaction is open"
        assert waiting.outcomes == [
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            0,
            1,
        ]
        assert waiting.coordinators.sent == []

    on_bench(tmp_path, story)


def test_batches_behind_one_that_waits_wait_too(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        assert waiting.send(partition, 0, version=V1)
        waiting.said_here = ErrorCode.NONE
        assert waiting.send(partition, 1, version=V1)
        await waiting.coordinators.answer(0)
        assert waiting.outcomes == [0, 1]

    on_bench(tmp_path, story)


def test_a_marker_that_comes_meanwhile_shuts_the_door(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0, version=V1)
        marker = end_txn_batch(
            commit=False, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
        )
        partition.append_marker(marker, NOW, 0)
        await waiting.coordinators.answer(0)
        assert waiting.outcomes == [ErrorCode.INVALID_TXN_STATE]
        assert partition.log.last_stable_offset == partition.log.end_offset == 1

    on_bench(tmp_path, story)


def test_a_word_from_before_the_marker_says_nothing_of_what_came_after_it(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0, version=V1)
        marker = end_txn_batch(
            commit=False, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
        )
        partition.append_marker(marker, NOW, 0)
        waiting.send(partition, 0, version=V1)
        await waiting.coordinators.answer(0)
        assert waiting.outcomes == [ErrorCode.INVALID_TXN_STATE]
        await waiting.coordinators.answer(1, ErrorCode.TRANSACTION_ABORTABLE)
        assert waiting.outcomes[1:] == [ErrorCode.TRANSACTION_ABORTABLE]
        assert partition.log.last_stable_offset == partition.log.end_offset == 1

    on_bench(tmp_path, story)


def test_leadership_that_goes_meanwhile(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0)
        partition.become_follower(2, 1)
        await waiting.coordinators.answer(0)
        assert waiting.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    on_bench(tmp_path, story)


@pytest.mark.parametrize(
    ("said", "before_11", "v11", "v12"),
    [
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 49, 49, 49),
        (ErrorCode.PRODUCER_FENCED, 47, 47, 47),
        (ErrorCode.TRANSACTION_ABORTABLE, 48, 120, 120),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 19, 19, None),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 19, 19, 19),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 19, 19, 19),
        (ErrorCode.NOT_COORDINATOR, 19, 19, 19),
        (ErrorCode.NETWORK_EXCEPTION, 19, 19, 19),
    ],
)
def test_what_clients_are_told(
    tmp_path: Path, said: ErrorCode, before_11: int, v11: int, v12: int | None
) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        versions = [(10, before_11), (11, v11), (12, v12)]
        for at, (version, _) in enumerate(versions):
            waiting.send(partition, 0, version=version)
            await waiting.coordinators.answer(at, said)
        assert waiting.outcomes == [code for _, code in versions if code is not None]

    on_bench(tmp_path, story)


def test_the_end_of_the_last_transaction_is_waited_for(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0)
        await waiting.coordinators.answer(0, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert waiting.outcomes == []
        await until(lambda: len(waiting.coordinators.sent) == 2)
        waiting.send(partition, 1)
        await waiting.coordinators.answer(1)
        assert waiting.outcomes == [0, 1]

    on_bench(tmp_path, story)


def marker_of_the_last_transaction(epoch: int) -> bytearray:
    """Under version 2 it carries the epoch of the next one."""
    return end_txn_batch(
        commit=True, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, timestamp=NOW
    )


def test_the_marker_of_the_last_transaction_may_come_while_the_next_one_waits(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0, epoch=1)
        await waiting.coordinators.answer(0, ErrorCode.CONCURRENT_TRANSACTIONS)
        partition.append_marker(marker_of_the_last_transaction(1), NOW, 2)
        assert waiting.send(partition, 1, epoch=1), "it stays behind the first"
        await until(lambda: len(waiting.coordinators.sent) == 2)
        assert waiting.send(partition, 2, epoch=1)
        await waiting.coordinators.answer(1)
        assert waiting.outcomes == [1, 2, 3]
        assert waiting.coordinators.sent[2:] == []

    on_bench(tmp_path, story)


def test_a_word_that_the_marker_of_the_last_transaction_overtook_is_asked_for_again(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0, epoch=1)
        partition.append_marker(marker_of_the_last_transaction(1), NOW, 2)
        await waiting.coordinators.answer(0)
        assert waiting.outcomes == []
        await until(lambda: len(waiting.coordinators.sent) == 2)
        await waiting.coordinators.answer(1)
        assert waiting.outcomes == [1]

    on_bench(tmp_path, story)


def test_after_its_own_marker_a_batch_is_told_that_its_epoch_is_over(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0, epoch=1)
        partition.append_marker(marker_of_the_last_transaction(2), NOW, 2)
        await waiting.coordinators.answer(0)
        await until(lambda: len(waiting.coordinators.sent) == 2)
        await waiting.coordinators.answer(1, ErrorCode.PRODUCER_FENCED)
        assert waiting.outcomes == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert partition.log.last_stable_offset == partition.log.end_offset == 1

    on_bench(tmp_path, story)


def test_but_not_forever(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0)
        at = 0
        while not waiting.outcomes:
            if len(waiting.coordinators.sent) > at:
                await waiting.coordinators.answer(at, ErrorCode.CONCURRENT_TRANSACTIONS)
                at += 1
            await asyncio.sleep(0.001)
        assert waiting.outcomes == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert at > 1

    on_bench(tmp_path, story)


def test_a_first_batch_that_failed_is_not_overtaken(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        waiting, partition = Waiting(tmp_path), bench.partition()
        waiting.send(partition, 0, version=V1)
        await waiting.coordinators.answer(0, ErrorCode.NOT_COORDINATOR)
        waiting.send(partition, 1, version=V1)
        await waiting.coordinators.answer(1)
        waiting.send(partition, 0, version=V1)
        await waiting.coordinators.answer(2)
        assert waiting.outcomes == [
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            0,
        ]

    on_bench(tmp_path, story)
