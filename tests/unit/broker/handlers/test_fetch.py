"""Fetch over the wire: versions, byte limits, long polls, epochs, isolation levels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.messages.fetch_request import FetchPartition, ReplicaState
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.records.batch import HEADER, TRANSACTIONAL
from ruslo.records.control import end_txn_batch
from tests.support.brokers.live_node import NOW, LiveNode, batch_of, live_node, records_in, until
from tests.support.clients.raw_client import RawClient, connected
from tests.unit.storage.workbench import run_jobs

VERSIONS = range(4, 19)
LONG_WAIT_MS = 2**31 - 1
"""This wait exceeds the timeout of a test, so a fetch that waits this long hangs."""


def fetch_partition(index: int = 0, offset: int = 0, max_bytes: int = 1 << 20) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)


async def fill(node: LiveNode, client: RawClient, batches: int = 3, size: int = 100, index: int = 0) -> int:
    """Append batches of two records each; return the size of a batch."""
    batch = batch_of(bytes(size), b"second")
    for _ in range(batches):
        assert (await node.produce(client, batch, index=index)).error_code == 0
    return len(batch)


async def test_every_version(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        topic_id = await node.create(partitions=2)
        await node.produce(client, batch_of(b"a", b"b"), index=1)
        for version in VERSIONS:
            request = node.fetch_request(
                [("t", fetch_partition(1)), ("none", fetch_partition()), ("t", fetch_partition(7))]
            )
            response = await client.call(request, FetchResponse, version)
            assert (response.error_code, response.session_id) == (0, 0)
            known, unknown, no_partition = response.responses
            by_id = version >= 13
            assert known.topic == ("" if by_id else "t")
            assert known.topic_id == (topic_id if by_id else ZERO_UUID)
            (data,) = known.partitions
            assert (data.partition_index, data.error_code) == (1, 0)
            assert (data.high_watermark, data.last_stable_offset) == (2, 2)
            assert data.log_start_offset == (0 if version >= 5 else -1)
            assert data.aborted_transactions is None
            assert [record.value for record in records_in(data.records)] == [b"a", b"b"]
            (rejected,) = unknown.partitions
            expected = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert ErrorCode(rejected.error_code) is expected
            assert (rejected.high_watermark, rejected.last_stable_offset) == (-1, -1)
            assert not rejected.records
            code = ErrorCode(no_partition.partitions[0].error_code)
            assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_fetch_inside_a_batch_returns_the_whole_batch(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await node.produce(client, batch_of(*(b"%d" % n for n in range(10))))
        await node.produce(client, batch_of(b"next"))
        for offset in (0, 5, 9):
            read = records_in((await node.fetch(client, offset)).records)
            assert [record.offset for record in read] == list(range(11))
        assert [r.offset for r in records_in((await node.fetch(client, 10)).records)] == [10]


async def test_offsets_out_of_range(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await fill(node, client, 2)
        node.partition().log.delete_records_before(2)
        for offset in (-1, 0, 1, 5, 2**62):
            data = await node.fetch(client, offset, max_wait_ms=LONG_WAIT_MS, min_bytes=1)
            assert ErrorCode(data.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
            assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
        at_end = await node.fetch(client, 4)
        assert (at_end.error_code, at_end.high_watermark, at_end.records or b"") == (0, 4, b"")


# -- byte limits ---------------------------------------------------------------------------------------------


async def test_first_batch_is_complete_however_large(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        size = await fill(node, client, 3, size=5000)
        for max_bytes in (1, 0, size - 1):
            data = await node.fetch(client, 2, max_bytes=max_bytes)
            assert len(data.records or b"") == size
            assert [record.offset for record in records_in(data.records)] == [2, 3]
        truncated = await node.fetch(client, 0, max_bytes=size + 10)
        assert len(truncated.records or b"") == size + 10, "the end of the range may split a batch"


async def test_only_the_first_partition_may_exceed_the_limits(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(partitions=4)
        for index in (1, 2, 3):
            size = await fill(node, client, 2, size=1000, index=index)

        async def sizes(max_bytes: int, partition_max_bytes: int) -> list[int]:
            listed = [("t", fetch_partition(index, max_bytes=partition_max_bytes)) for index in range(4)]
            request = node.fetch_request(listed, max_bytes=max_bytes)
            response = await client.call(request, FetchResponse, 12)
            (result,) = response.responses
            assert {each.error_code for each in result.partitions} == {0}
            return [len(each.records or b"") for each in result.partitions]

        # Partition 0 is empty, so partition 1 may exceed the limit.
        assert await sizes(1, 1) == [0, size, 0, 0]
        assert await sizes(2 * size, 1) == [0, size, 0, 0]
        assert await sizes(10 * size, size) == [0, size, size, size]
        assert await sizes(2 * size, 2 * size) == [0, 2 * size, 0, 0]
        # The remaining bytes are too few for a batch: no records instead of a partial batch.
        assert await sizes(3 * size - 1, 2 * size) == [0, 2 * size, 0, 0]
        assert await sizes(3 * size, 2 * size) == [0, 2 * size, size, 0]
        assert await sizes(3 * size + 7, 2 * size) == [0, 2 * size, size + 7, 0]


async def test_the_broker_limits_the_response_too(tmp_path: Path) -> None:
    properties = {"fetch.max.bytes": "2048"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create()
        await fill(node, client, 50, size=100)
        assert len((await node.fetch(client)).records or b"") == 2048


# -- long polls ----------------------------------------------------------------------------------------------


async def test_no_wait_with_enough_bytes_or_without_max_wait(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        size = await fill(node, client, 1)
        for max_wait_ms, min_bytes in ((LONG_WAIT_MS, size), (LONG_WAIT_MS, 0), (0, 1 << 30)):
            data = await node.fetch(client, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
            assert len(data.records or b"") == size


async def test_min_bytes_above_the_max_bytes_of_the_request(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        size = await fill(node, client, 2)
        request = node.fetch_request(
            [("t", fetch_partition())], max_wait_ms=LONG_WAIT_MS, min_bytes=1 << 30, max_bytes=size
        )
        response = await client.call(request, FetchResponse, 12)
        assert len(response.responses[0].partitions[0].records or b"") == size


async def test_fetch_returns_available_records_after_its_maximum_wait(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        size = await fill(node, client, 1)
        data = await node.fetch(client, max_wait_ms=30, min_bytes=1 << 20)
        assert len(data.records or b"") == size
        assert not node.partition().delayed_fetches


async def test_a_long_poll_completes_once_there_are_enough_bytes(tmp_path: Path) -> None:
    async with (
        live_node(tmp_path) as node,
        connected(node.bootstrap) as reader,
        connected(node.bootstrap) as writer,
    ):
        await node.create(partitions=2)
        size = await fill(node, writer, 1)
        request = node.fetch_request(
            [("t", fetch_partition(0)), ("t", fetch_partition(1))],
            max_wait_ms=LONG_WAIT_MS,
            min_bytes=3 * size,
        )
        waiting = asyncio.create_task(reader.call(request, FetchResponse, 12))
        await until(lambda: bool(node.partition("t", 1).delayed_fetches))
        await fill(node, writer, 1, index=1)
        await asyncio.sleep(0.01)
        assert not waiting.done(), "two batches of three are not enough"
        await fill(node, writer, 1)
        (result,) = (await waiting).responses
        assert [len(each.records or b"") for each in result.partitions] == [2 * size, size]
        assert not node.partition("t", 0).delayed_fetches
        assert not node.partition("t", 1).delayed_fetches


async def test_an_error_in_one_partition_ends_the_wait_for_all(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        request = node.fetch_request(
            [("t", fetch_partition()), ("none", fetch_partition())], max_wait_ms=LONG_WAIT_MS, min_bytes=1
        )
        response = await client.call(request, FetchResponse, 12)
        assert [each.partitions[0].error_code for each in response.responses] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


async def test_a_fetch_at_the_end_of_a_segment_does_not_wait(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        size = await fill(node, client, 1)
        log = node.partition().log
        log.roll(log.end_offset, NOW)
        await fill(node, client, 3)
        # A read covers one segment: waiting does not add records of the next one.
        data = await node.fetch(client, 0, max_wait_ms=LONG_WAIT_MS, min_bytes=3 * size)
        assert len(data.records or b"") == size


@pytest.mark.parametrize("version", [12, 13])
async def test_deleting_the_topic_ends_the_wait(tmp_path: Path, version: int) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        partition = node.partition()
        waiting = asyncio.create_task(
            node.fetch(client, version=version, max_wait_ms=LONG_WAIT_MS, min_bytes=1)
        )
        await until(lambda: bool(partition.delayed_fetches))
        await node.delete()
        expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert ErrorCode((await waiting).error_code) is expected


async def test_connections_of_clients_that_left_are_closed_with_pipelined_requests(
    tmp_path: Path,
) -> None:
    async with live_node(tmp_path) as node:
        await node.create()
        connections = node.node._broker_server.connections
        waits = node.fetch_request([("t", fetch_partition())], max_wait_ms=LONG_WAIT_MS, min_bytes=1)
        for count in (1, 2, 100, 500):
            async with connected(node.bootstrap) as leaves:
                for _ in range(count):
                    leaves.send(waits, 12)
                await leaves.writer.drain()
                await until(lambda: any(each.pending_responses for each in connections))

        def all_closed() -> bool:
            # The check for idle connections does the same, but less often.
            for connection in list(connections):
                connection.check_peer()
            return not connections

        await until(all_closed)
        assert not node.partition().delayed_fetches


async def test_client_may_disconnect_during_a_long_poll(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as writer:
        await node.create()
        async with connected(node.bootstrap) as leaves:
            leaves.send(
                node.fetch_request([("t", fetch_partition())], max_wait_ms=LONG_WAIT_MS, min_bytes=1), 12
            )
            await until(lambda: bool(node.partition().delayed_fetches))
        await until(lambda: not node.partition().delayed_fetches)
        await fill(node, writer, 1)
        assert len(records_in((await node.fetch(writer)).records)) == 2


# -- epochs --------------------------------------------------------------------------------------------------


async def test_leader_epochs(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await fill(node, client, 1)
        assert (await node.fetch(client, current_leader_epoch=0)).error_code == 0
        newer = await node.fetch(client, current_leader_epoch=1, max_wait_ms=LONG_WAIT_MS, min_bytes=1000)
        assert ErrorCode(newer.error_code) is ErrorCode.UNKNOWN_LEADER_EPOCH
        node.partition().become_leader(4)
        older = await node.fetch(client, current_leader_epoch=3, max_wait_ms=LONG_WAIT_MS, min_bytes=1000)
        assert ErrorCode(older.error_code) is ErrorCode.FENCED_LEADER_EPOCH
        node.partition().become_follower(-1, 5)
        moved = await node.fetch(client)
        assert ErrorCode(moved.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_serves_rack_aware_consumers_and_refers_others_to_the_leader(
    tmp_path: Path,
) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await fill(node, client, 1)
        node.partition().become_follower(9, 5)
        for version in VERSIONS:
            (topic,) = (
                await client.call(node.fetch_request([("t", fetch_partition())]), FetchResponse, version)
            ).responses
            (data,) = topic.partitions
            if version >= 11:
                assert (data.error_code, len(records_in(data.records))) == (0, 2)
            else:
                assert ErrorCode(data.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        fenced = await node.fetch(client, current_leader_epoch=4)
        assert ErrorCode(fenced.error_code) is ErrorCode.FENCED_LEADER_EPOCH
        assert (fenced.current_leader.leader_id, fenced.current_leader.leader_epoch) == (9, 5)


@pytest.mark.parametrize("version", [12, 18])
async def test_diverging_epochs(tmp_path: Path, version: int) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await fill(node, client, 2)  # epoch 0: offsets 0 to 3
        node.partition().become_leader(3)
        await fill(node, client, 1)  # epoch 3: offsets 4 and 5

        async def fetch(offset: int, epoch: int) -> tuple[int, int, int, int]:
            data = await node.fetch(
                client,
                offset,
                last_fetched_epoch=epoch,
                version=version,
                max_wait_ms=LONG_WAIT_MS,
                min_bytes=1,
            )
            assert data.high_watermark == (6 if not data.error_code else -1)
            diverging = data.diverging_epoch
            return data.error_code, diverging.epoch, diverging.end_offset, len(records_in(data.records))

        assert await fetch(2, 0) == (0, -1, -1, 2 + 2)
        assert await fetch(4, 0) == (0, -1, -1, 2)
        assert await fetch(5, 0) == (0, 0, 4, 0), "epoch 0 ended at 4"
        assert await fetch(4, 2) == (0, 0, 4, 0), "epoch 2 never existed"
        assert await fetch(5, 3) == (0, -1, -1, 2)
        assert (await fetch(5, 9))[0] == ErrorCode.OFFSET_OUT_OF_RANGE


# -- isolation -----------------------------------------------------------------------------------------------


async def test_read_committed(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await fill(node, client, 2)
        plain = await node.fetch(client, isolation_level=1)
        assert (plain.last_stable_offset, plain.aborted_transactions) == (4, [])
        assert len(records_in(plain.records)) == 4
        at_end = await node.fetch(client, 4, isolation_level=1)
        assert (at_end.last_stable_offset, at_end.aborted_transactions) == (4, [])


async def test_read_committed_with_open_and_aborted_transactions(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await fill(node, client, 1)
        partition = node.partition()
        log = partition.log

        def write(producer_id: int) -> None:
            # Appended to the log directly, without a transaction coordinator.
            batch = batch_of(
                b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
            )
            log.append_leader(batch, HEADER.unpack_from(batch), 0, NOW)
            partition._high_watermark.advance(log.end_offset, len(batch))

        def abort(producer_id: int) -> None:
            marker = end_txn_batch(
                commit=False,
                producer_id=producer_id,
                producer_epoch=1,
                coordinator_epoch=0,
                timestamp=NOW,
            )
            log.append_marker(marker, 0, NOW)
            partition._high_watermark.advance(log.end_offset, len(marker))

        write(1)  # offset 2
        write(2)  # offset 3
        open_ = await node.fetch(client, isolation_level=1)
        assert (open_.high_watermark, open_.last_stable_offset) == (4, 2)
        assert [record.offset for record in records_in(open_.records)] == [0, 1]
        waiting = asyncio.create_task(
            node.fetch(client, 2, isolation_level=1, max_wait_ms=LONG_WAIT_MS, min_bytes=1)
        )
        await until(lambda: bool(partition.delayed_fetches))
        await asyncio.sleep(0.01)
        abort(2)  # offset 4: the transaction of producer 1 is still open
        await asyncio.sleep(0.01)
        assert not waiting.done()
        abort(1)  # offset 5
        done = await waiting
        assert (done.high_watermark, done.last_stable_offset) == (6, 6)
        assert [(each.producer_id, each.first_offset) for each in done.aborted_transactions or ()] == [
            (2, 3),
            (1, 2),
        ]
        uncommitted = await node.fetch(client)
        assert uncommitted.aborted_transactions is None


async def test_a_forged_replica_id_gets_nothing(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await fill(node, client, 1)
        for version, forged in (
            (11, {"replica_id": 5}),
            (17, {"replica_state": ReplicaState(replica_id=5, replica_epoch=1)}),
        ):
            data = await node.fetch(client, version=version, **forged)
            assert ErrorCode(data.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert not data.records


async def test_zstd_topics_need_version_10(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(compression_type="zstd")
        await fill(node, client, 1)
        data = await node.fetch(client, version=9)
        assert ErrorCode(data.error_code) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert len(records_in((await node.fetch(client, version=10)).records)) == 2


# -- old data ------------------------------------------------------------------------------------------------


async def test_reading_from_start_to_end_over_many_segments(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        log = node.partition().log
        values = [b"%04d" % n for n in range(600)]
        for at, value in enumerate(values):
            await node.produce(client, batch_of(value))
            if at % 97 == 96:
                log.roll(log.end_offset, NOW)
        log.release_idle_files()
        read: list[bytes | None] = []
        while len(read) < len(values):
            data = await node.fetch(client, len(read), max_bytes=1500)
            read += [record.value for record in records_in(data.records)]
        assert read == values


async def test_a_slow_consumer_gets_its_response_even_after_the_topic_is_deleted(tmp_path: Path) -> None:
    properties = {"log.segment.delete.delay.ms": "0"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create(max_message_bytes="30000000")
        batch = batch_of(*(bytes([n]) * 1_000_000 for n in range(20)))
        assert (await node.produce(client, batch)).error_code == 0
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket transport
        client.send(node.fetch_request([("t", fetch_partition())]), 12)
        await asyncio.sleep(0.1)
        await node.delete()
        run_jobs(node.node.logs, node.node.logs.trash_jobs())
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        response = await client.receive(FetchResponse)
        read = records_in(response.responses[0].partitions[0].records)
        assert [record.value for record in read] == [bytes([n]) * 1_000_000 for n in range(20)]
