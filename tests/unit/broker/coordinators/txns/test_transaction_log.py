"""The ``__transaction_state`` log: its records, loading them, and failed appends."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from ruslo.broker.coordinators.runtime.record_codec import decode_records
from ruslo.machines.txns.metadata import TxnMetadata
from ruslo.machines.txns.record_bytes import RecordBytes, state_bytes, tombstone_bytes
from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.coordinator_records import TRANSACTION_RECORDS
from ruslo.protocol.messages.transaction_log_value import TransactionLogValue
from ruslo.records.batch import BatchHeader
from ruslo.records.builder import build_batch
from ruslo.records.reader import iter_batches
from ruslo.records.record import Record
from ruslo.storage.disk import DiskError
from tests.support.brokers.live_node import HeldDisk, LiveNode, held_disks, live_node, run, until
from tests.support.clients.raw_client import connected
from tests.support.txns.txn_requests import TxnProducer, find_txn_coordinator, write_marker

__all__ = ["held_disks"]

STATE = "__transaction_state"
OFFSETS = "__consumer_offsets"
ONE = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
NOW = 4_000_000_000_000
"""A timestamp in the future, so that transactions do not time out."""


def logged(node: LiveNode) -> list[tuple[BatchHeader, TransactionLogValue | None]]:
    """Every record of the transaction log with the header of its batch."""
    log = node.partition(STATE).log
    log_slice = log.read(0, 1 << 20, log.end_offset).slice
    data = memoryview(b"" if log_slice is None else log_slice.read())
    found: list[tuple[BatchHeader, TransactionLogValue | None]] = []

    for at, header in iter_batches(data):
        for _, _, value, _ in decode_records(data[at : at + header.size], TRANSACTION_RECORDS):
            assert value is None or isinstance(value, TransactionLogValue)
            found.append((header, value))
    return found


def states(node: LiveNode) -> list[tuple[TxnState, int]]:
    """The states and epochs in the transaction log."""
    return [
        (TxnState(value.transaction_status), value.producer_epoch)
        for _, value in logged(node)
        if value is not None
    ]


def write(node: LiveNode, record: RecordBytes) -> None:
    """Append a record to the transaction log without the coordinator."""
    key, value = record
    node.partition(STATE).append_records(build_batch([Record(0, NOW, key, value)]), NOW)


def found_state(state: TxnState, *partitions: tuple[str, int], epoch: int = 1) -> TxnMetadata:
    return TxnMetadata(
        producer_id=1_000_000,
        epoch=epoch,
        state=state,
        timeout_ms=60_000,
        last_update_ms=NOW,
        start_ms=NOW,
        partitions=frozenset(TopicPartition(*each) for each in partitions),
        client_version=2,
    )


async def test_one_record_for_each_step(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=2)
        for is_v2, bump in ((True, 1), (False, 0)):
            before = len(states(node)) if STATE in node.node.broker.partitions.by_name else 0
            producer = TxnProducer(node, client, f"v{is_v2:d}", is_v2=is_v2)
            await producer.init()
            epoch = producer.epoch
            await producer.send(b"a")
            await producer.send(b"b", index=1)
            await producer.end(commit=True)
            # The response does not wait for the markers.
            await until(lambda: states(node)[-1][0] is TxnState.COMPLETE_COMMIT)
            assert states(node)[before:] == [
                (TxnState.EMPTY, epoch),
                (TxnState.ONGOING, epoch),
                (TxnState.ONGOING, epoch),
                (TxnState.PREPARE_COMMIT, epoch + bump),
                (TxnState.COMPLETE_COMMIT, epoch + bump),
            ]
        for header, _ in logged(node):
            assert (header.count, header.producer_id, header.base_sequence) == (1, -1, -1)


@pytest.mark.parametrize("state", [TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT])
async def test_prepared_transactions_are_completed_after_a_load(tmp_path: Path, state: TxnState) -> None:
    async with live_node(tmp_path, ONE) as node, connected(node.bootstrap) as client:
        await node.create("t")
        await find_txn_coordinator(client, "tx")
        metadata = found_state(state, ("t", 0), ("deleted long ago", 3))
        write(node, state_bytes("tx", metadata, 1))
    async with live_node(tmp_path, ONE) as node:
        log = node.partition().log
        await until(lambda: log.end_offset == 1)
        entry = log.producers.entries[1_000_000]
        # The marker carries the epoch of the current coordinator.
        assert (entry.epoch, entry.coordinator_epoch) == (1, node.partition(STATE).leader_epoch)
        done = TxnState.COMPLETE_COMMIT if state is TxnState.PREPARE_COMMIT else TxnState.COMPLETE_ABORT
        await until(lambda: states(node)[-1] == (done, 1))


def test_unreadable_record_rejects_the_partition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with live_node(tmp_path, ONE) as node, connected(node.bootstrap) as client:
            await find_txn_coordinator(client, "tx")
            key, _ = tombstone_bytes("tx")
            newer = build_batch([Record(0, NOW, key, (77).to_bytes(2, "big"))])
            node.partition(STATE).append_records(newer, NOW)
        async with live_node(tmp_path, ONE) as node, connected(node.bootstrap) as client:
            await until(lambda: "cannot be loaded" in caplog.text)
            producer = TxnProducer(node, client)
            assert await producer.init() is ErrorCode.NOT_COORDINATOR

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert "its transactions are rejected" in caplog.text


async def test_responses_wait_for_the_commit_of_the_transaction(
    tmp_path: Path, held_disks: dict[str, HeldDisk]
) -> None:
    async with live_node(tmp_path, ONE) as node, connected(node.bootstrap) as client:
        (disk,) = held_disks.values()
        await node.create("t", partitions=2)
        producer = TxnProducer(node, client)
        await producer.init()
        await node.alter(STATE, flush_messages="1")
        disk.free.clear()
        requests = [
            node.produce_request({("t", index): producer.batch(b"v", index=index)}, transactional_id="tx")
            for index in (0, 0, 1, 0)
        ]
        async with connected(node.bootstrap) as other:
            for request in requests:
                other.send(request, 12)
            await until(lambda: states(node)[-1][0] is TxnState.ONGOING)
            assert node.partition().log.end_offset == 0
            # A request for another partition waits until then and is not rejected.
            assert len(states(node)) == 2
            disk.free.set()
            from ruslo.protocol.messages.produce_response import ProduceResponse

            offsets = []
            for _ in requests:
                response = await other.receive(ProduceResponse)
                (result,) = response.responses[0].partition_responses
                assert result.error_code == 0, result.error_message
                offsets.append(result.base_offset)
            assert offsets == [0, 1, 0, 2]
        assert await producer.end(commit=True) is ErrorCode.NONE
        await until(lambda: states(node)[-1][0] is TxnState.COMPLETE_COMMIT)
        assert [node.partition(index=index).log.last_stable_offset for index in (0, 1)] == [4, 2]


def test_failed_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with live_node(tmp_path, ONE) as node, connected(node.bootstrap) as client:
            await node.create("t")
            producer = TxnProducer(node, client)
            await producer.init()
            await producer.send(b"a")
            log = node.partition(STATE).log

            def full(data: object) -> None:
                no_room = OSError(errno.ENOSPC, "no room")
                raise DiskError(log.directory, "x.log", "write", no_room)

            whole = log._write
            log._write = full
            assert await producer.end(commit=True) is ErrorCode.NOT_COORDINATOR
            assert node.partition().log.last_stable_offset == 0
            log._write = whole
            # No end was decided: the client may retry it or choose the other one.
            assert await producer.end(commit=False) is ErrorCode.NONE
            await until(lambda: states(node)[-1][0] is TxnState.COMPLETE_ABORT)
            assert node.partition().log.last_stable_offset == 2

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert f"{STATE}-0 could not be written" in caplog.text


async def test_markers_wait_until_the_groups_are_loaded(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE) as node, connected(node.bootstrap) as client:
        await node.create("t")
        producer = TxnProducer(node, client, is_v2=False)
        await producer.init()
        assert await producer.add_offsets("g") is ErrorCode.NONE
        assert await producer.commit_offsets("g", {0: 3}) == [ErrorCode.NONE]
        shard = node.node.broker.groups.get(0)
        assert shard is not None
        shard.active = False
        rejected = await write_marker(client, producer.producer_id, producer.epoch, topic=OFFSETS)
        assert rejected is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await producer.end(commit=True) is ErrorCode.NONE
        assert states(node)[-1][0] is TxnState.PREPARE_COMMIT
        shard.active = True
        await until(lambda: states(node)[-1][0] is TxnState.COMPLETE_COMMIT)


async def test_new_leader_epoch_is_a_new_coordinator_epoch(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE) as node, connected(node.bootstrap) as client:
        await node.create("t")
        producer = TxnProducer(node, client)
        await producer.init()
        await producer.send(b"a")
        before = node.node.broker.transactions.get(0)
        assert before is not None
        partition = node.partition(STATE)
        assert before.serves(partition)
        partition.become_leader(partition.leader_epoch + 1)
        assert not before.serves(partition)
        before.close()
        assert (await producer.end(commit=True)) is ErrorCode.NOT_COORDINATOR
