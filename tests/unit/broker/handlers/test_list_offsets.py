"""ListOffsets over the wire: special timestamps, timestamps inside batches, versions, errors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.fetch_request import FetchPartition
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse
from ruslo.protocol.messages.produce_response import ProduceResponse
from ruslo.records.builder import build_batch
from ruslo.records.compression import Codec
from ruslo.records.record import Record
from tests.support.brokers.live_node import (
    NOW,
    HeldDisk,
    batch_of,
    held_disks,
    live_node,
    until,
)
from tests.support.clients.raw_client import RawClient, connected

__all__ = ["held_disks"]

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, PENDING_UPLOAD: 11}


async def list_offset(
    client: RawClient, timestamp: int, version: int = 11, topic: str = "t", index: int = 0, epoch: int = -1
) -> ListOffsetsPartitionResponse:
    requested = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[requested])])
    result = await client.call(request, ListOffsetsResponse, version)
    return result.topics[0].partitions[0]


def batch_at(*timestamps: int, codec: int = Codec.NONE) -> bytearray:
    return build_batch([Record(at, time, b"k", b"v") for at, time in enumerate(timestamps)], codec=codec)


async def test_special_timestamps_in_every_version(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await node.produce(client, batch_at(NOW, NOW + 50, NOW + 20))
        await node.produce(client, batch_at(NOW + 50, NOW + 10))
        node.partition().log.delete_records_before(1)
        expected = {
            LATEST: (5, -1, 0),
            EARLIEST: (1, -1, 0),
            MAX_TIMESTAMP: (1, NOW + 50, 0),
            EARLIEST_LOCAL: (1, -1, 0),
            LATEST_TIERED: (-1, -1, -1),
            PENDING_UPLOAD: (-1, -1, -1),
        }
        for version in range(1, 12):
            for timestamp, (offset, found, epoch) in expected.items():
                result = await list_offset(client, timestamp, version)
                if version < SINCE[timestamp]:
                    assert ErrorCode(result.error_code) is ErrorCode.UNSUPPORTED_VERSION
                    continue
                assert (result.error_code, result.offset, result.timestamp) == (0, offset, found), timestamp
                assert result.leader_epoch == (epoch if version >= 4 else -1)
        assert ErrorCode((await list_offset(client, -7)).error_code) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("codec", Codec)
async def test_a_timestamp_inside_a_batch(tmp_path: Path, codec: Codec) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await node.produce(client, batch_at(NOW, NOW + 10, NOW + 20, codec=codec))
        await node.produce(client, batch_at(NOW + 15, NOW + 40, NOW + 30, codec=codec))
        for timestamp, offset, found in (
            (0, 0, NOW),
            (NOW, 0, NOW),
            (NOW + 1, 1, NOW + 10),
            (NOW + 20, 2, NOW + 20),
            (NOW + 21, 4, NOW + 40),
            (NOW + 40, 4, NOW + 40),
            (NOW + 41, -1, -1),
        ):
            result = await list_offset(client, timestamp)
            assert (result.error_code, result.offset, result.timestamp) == (0, offset, found), timestamp


async def test_an_empty_log(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        for timestamp, offset in ((LATEST, 0), (EARLIEST, 0), (MAX_TIMESTAMP, -1), (NOW, -1)):
            result = await list_offset(client, timestamp)
            assert (result.error_code, result.offset, result.timestamp) == (0, offset, -1)


async def test_errors(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        node.partition().become_leader(2)
        for result, code in (
            (await list_offset(client, LATEST, topic="none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (await list_offset(client, LATEST, index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (await list_offset(client, LATEST, epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
            (await list_offset(client, LATEST, epoch=3), ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            assert (ErrorCode(result.error_code), result.offset, result.leader_epoch) == (code, -1, -1)
        twice = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[twice, twice])])
        (topic,) = (await client.call(request, ListOffsetsResponse)).topics
        assert [each.error_code for each in topic.partitions] == [ErrorCode.INVALID_REQUEST] * 2


async def test_no_offset_beyond_the_high_watermark(tmp_path: Path, held_disks: dict[str, HeldDisk]) -> None:
    async with (
        live_node(tmp_path) as node,
        connected(node.bootstrap) as client,
        connected(node.bootstrap) as writer,
    ):
        await node.create(flush_messages="1")
        await node.produce(writer, batch_of(b"a"))
        disk = held_disks[str(tmp_path)]
        disk.started.clear()
        disk.free.clear()
        writer.send(node.produce_request({("t", 0): batch_of(b"b", timestamp=NOW + 100)}), 9)
        await asyncio.to_thread(disk.started.wait, 10)
        assert (await list_offset(client, LATEST)).offset == 1
        assert (await list_offset(client, NOW + 100)).offset == -1
        # A new epoch begins at the log end, and the records before it are not committed yet.
        node.partition().become_leader(1)
        for timestamp in (LATEST, NOW + 100):
            result = await list_offset(client, timestamp)
            assert ErrorCode(result.error_code) is ErrorCode.OFFSET_NOT_AVAILABLE
            result = await list_offset(client, timestamp, version=4)
            assert ErrorCode(result.error_code) is ErrorCode.LEADER_NOT_AVAILABLE
        assert (await list_offset(client, EARLIEST)).error_code == 0
        assert (await list_offset(client, NOW)).offset == 0
        disk.free.set()
        await writer.receive(ProduceResponse)
        assert (await list_offset(client, LATEST)).offset == 2


async def test_a_read_error_takes_the_log_directory_offline(tmp_path: Path) -> None:
    async with live_node([tmp_path / "a", tmp_path / "b"]) as node, connected(node.bootstrap) as client:
        await node.create("t", 2)
        index = next(i for i in range(2) if node.partition("t", i).log.directory == str(tmp_path / "b"))
        await node.produce(client, batch_of(b"a"), index=index)
        log = node.partition("t", index).log
        log.roll(log.end_offset, NOW)
        log.release_idle_files()
        log.segments[0].move_to(str(tmp_path / "b" / "gone"))
        for _ in range(2):
            result = await list_offset(client, NOW, index=index)
            assert ErrorCode(result.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
        assert (await list_offset(client, LATEST, index=1 - index)).error_code == 0


async def test_an_end_offset_after_a_waiting_fetch_includes_its_records(tmp_path: Path) -> None:
    async with (
        live_node(tmp_path) as node,
        connected(node.bootstrap) as consumer,
        connected(node.bootstrap) as producer,
    ):
        await node.create()
        fetch = node.fetch_request(
            [("t", FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20))],
            max_wait_ms=2**31 - 1,
            min_bytes=1,
        )
        requested = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        ends = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[requested])])
        consumer.send(fetch)
        consumer.send(ends)
        # The broker has received both requests when the record is appended.
        await node.produce(producer, batch_of(b"a"))
        fetched = (await consumer.receive(FetchResponse)).responses[0].partitions[0]
        assert fetched.high_watermark == 1
        assert (await consumer.receive(ListOffsetsResponse)).topics[0].partitions[0].offset == 1


async def test_an_end_offset_after_a_waiting_produce_includes_its_records(
    tmp_path: Path, held_disks: dict[str, HeldDisk]
) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        for value in (b"a", b"b"):
            client.send(node.produce_request({("t", 0): batch_of(value)}), 9)
        requested = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        ends = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[requested])])
        client.send(ends)
        # Produce requests do not wait for each other.
        await until(lambda: node.partition().log.end_offset == 2)
        disk.free.set()
        for _ in range(2):
            await client.receive(ProduceResponse)
        assert (await client.receive(ListOffsetsResponse)).topics[0].partitions[0].offset == 2
