"""Batches that wait for verification: their order, their errors, and markers that arrive in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.transactional_appends import TransactionalAppends, WaitingBatch
from ruslo.broker.partitions.txn_verification import TransactionVerifier
from ruslo.config.broker import BrokerConfig
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.control import end_txn_batch
from ruslo.testing.cluster_layout import single_node_properties
from tests.support.brokers.live_node import NOW, batch_of, until
from tests.unit.broker.partitions.bench import on_bench
from tests.unit.broker.partitions.test_txn_verification import Coordinators

TX = "aa"
PRODUCER = 5
V1, V2 = 11, 12


class Producer:
    def __init__(self, path: Path) -> None:
        self.coordinators = Coordinators()
        config = BrokerConfig.from_properties(single_node_properties(path))
        verifier = TransactionVerifier(self.coordinators, lambda *_: self.local_code)
        self.appends = TransactionalAppends(verifier, lambda: config, SystemClock())
        self.outcomes: list[int | ErrorCode] = []
        """The base offsets or errors of the batches, in the order of completion."""
        self.local_code: ErrorCode | None = None
        """The error code of a local coordinator; None if the coordinator is on another node."""

    def send(self, partition: Partition, sequence: int, *, epoch: int = 0, version: int = V2) -> bool:
        """Return whether the batch waits."""
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


async def test_batches_that_arrive_during_the_verification_keep_their_order(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        for sequence in range(3):
            assert producer.send(partition, sequence)
        assert len(producer.coordinators.sent) == 1
        assert partition.log.end_offset == 0
        await producer.coordinators.respond(0)
        assert producer.outcomes == [0, 1, 2]
        assert not producer.send(partition, 3)
        assert producer.send(partition, 0, epoch=1)


async def test_a_coordinator_on_the_same_node_verifies_at_once(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.local_code = ErrorCode.TRANSACTION_ABORTABLE
        assert not producer.send(partition, 0, version=V1)
        producer.local_code = ErrorCode.NONE
        assert not producer.send(partition, 1, version=V1), "it must not overtake the rejected batch"
        assert not producer.send(partition, 0, version=V1)
        producer.local_code = ErrorCode.TRANSACTION_ABORTABLE
        assert not producer.send(partition, 1, version=V1), "an open transaction is not verified again"
        assert producer.outcomes == [
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            0,
            1,
        ]
        assert producer.coordinators.sent == []


async def test_batches_wait_behind_a_waiting_batch(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        assert producer.send(partition, 0, version=V1)
        producer.local_code = ErrorCode.NONE
        assert producer.send(partition, 1, version=V1)
        await producer.coordinators.respond(0)
        assert producer.outcomes == [0, 1]


async def test_a_marker_during_the_verification_rejects_a_version_1_batch(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0, version=V1)
        marker = end_txn_batch(
            commit=False, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
        )
        partition.append_marker(marker, NOW, 0)
        await producer.coordinators.respond(0)
        assert producer.outcomes == [ErrorCode.INVALID_TXN_STATE]
        assert partition.log.last_stable_offset == partition.log.end_offset == 1


async def test_a_verification_from_before_a_marker_does_not_cover_later_batches(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0, version=V1)
        marker = end_txn_batch(
            commit=False, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
        )
        partition.append_marker(marker, NOW, 0)
        producer.send(partition, 0, version=V1)
        await producer.coordinators.respond(0)
        assert producer.outcomes == [ErrorCode.INVALID_TXN_STATE]
        await producer.coordinators.respond(1, ErrorCode.TRANSACTION_ABORTABLE)
        assert producer.outcomes[1:] == [ErrorCode.TRANSACTION_ABORTABLE]
        assert partition.log.last_stable_offset == partition.log.end_offset == 1


async def test_the_leadership_ends_during_the_verification(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0)
        partition.become_follower(2, 1)
        await producer.coordinators.respond(0)
        assert producer.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(
    ("code", "before_11", "v11", "v12"),
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
async def test_errors_of_produce(
    tmp_path: Path, code: ErrorCode, before_11: int, v11: int, v12: int | None
) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        versions = [(10, before_11), (11, v11), (12, v12)]
        for at, (version, _) in enumerate(versions):
            producer.send(partition, 0, version=version)
            await producer.coordinators.respond(at, code)
        assert producer.outcomes == [expected for _, expected in versions if expected is not None]


async def test_a_concurrent_transaction_is_retried(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0)
        await producer.coordinators.respond(0, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert producer.outcomes == []
        await until(lambda: len(producer.coordinators.sent) == 2)
        producer.send(partition, 1)
        await producer.coordinators.respond(1)
        assert producer.outcomes == [0, 1]


def marker_of_the_last_transaction(epoch: int) -> bytearray:
    """With version 2 the marker carries the epoch of the next transaction."""
    return end_txn_batch(
        commit=True, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, timestamp=NOW
    )


async def test_the_marker_of_the_last_transaction_may_arrive_while_the_next_one_waits(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0, epoch=1)
        await producer.coordinators.respond(0, ErrorCode.CONCURRENT_TRANSACTIONS)
        partition.append_marker(marker_of_the_last_transaction(1), NOW, 2)
        assert producer.send(partition, 1, epoch=1), "it waits behind the first batch"
        await until(lambda: len(producer.coordinators.sent) == 2)
        assert producer.send(partition, 2, epoch=1)
        await producer.coordinators.respond(1)
        assert producer.outcomes == [1, 2, 3]
        assert producer.coordinators.sent[2:] == []


async def test_a_verification_that_a_marker_overtook_is_repeated(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0, epoch=1)
        partition.append_marker(marker_of_the_last_transaction(1), NOW, 2)
        await producer.coordinators.respond(0)
        assert producer.outcomes == []
        await until(lambda: len(producer.coordinators.sent) == 2)
        await producer.coordinators.respond(1)
        assert producer.outcomes == [1]


async def test_a_batch_after_its_own_marker_has_an_invalid_epoch(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0, epoch=1)
        partition.append_marker(marker_of_the_last_transaction(2), NOW, 2)
        await producer.coordinators.respond(0)
        await until(lambda: len(producer.coordinators.sent) == 2)
        await producer.coordinators.respond(1, ErrorCode.PRODUCER_FENCED)
        assert producer.outcomes == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert partition.log.last_stable_offset == partition.log.end_offset == 1


async def test_retries_of_a_concurrent_transaction_end(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0)
        at = 0
        while not producer.outcomes:
            if len(producer.coordinators.sent) > at:
                await producer.coordinators.respond(at, ErrorCode.CONCURRENT_TRANSACTIONS)
                at += 1
            await asyncio.sleep(0.001)
        assert producer.outcomes == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert at > 1


async def test_a_rejected_first_batch_is_not_overtaken(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        producer, partition = Producer(tmp_path), bench.partition()
        producer.send(partition, 0, version=V1)
        await producer.coordinators.respond(0, ErrorCode.NOT_COORDINATOR)
        producer.send(partition, 1, version=V1)
        await producer.coordinators.respond(1)
        producer.send(partition, 0, version=V1)
        await producer.coordinators.respond(2)
        assert producer.outcomes == [
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            0,
        ]
