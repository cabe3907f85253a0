"""Produce over the wire: versions, acks, idempotence, errors, dynamic configs, flushes."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.fetch_request import FetchPartition
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.produce_response import ProduceResponse
from ruslo.records.batch import CONTROL, read_header
from ruslo.records.compression import Codec
from tests.support.brokers.live_node import (
    NOW,
    HeldDisk,
    batch_of,
    held_disks,
    live_node,
    records_in,
    run,
    until,
)
from tests.support.clients.raw_client import connected
from tests.unit.storage.workbench import run_jobs

__all__ = ["held_disks"]

VERSIONS = range(3, 14)
MAX_SEQUENCE = 2**31 - 1


async def test_every_version_appends_and_returns_errors(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(partitions=2)
        for at, version in enumerate(VERSIONS):
            request = node.produce_request(
                {("t", 1): batch_of(b"v%d" % version), ("none", 0): batch_of(b"x")}
            )
            result = await client.call(request, ProduceResponse, version)
            accepted, unknown = result.responses
            assert (accepted.name, accepted.topic_id != bytes(16)) == (
                ("t", False) if version < 13 else ("", True)
            )
            (made,) = accepted.partition_responses
            assert (made.index, made.error_code, made.base_offset) == (1, 0, at)
            assert (made.log_append_time_ms, made.log_start_offset) == (-1, 0 if version >= 5 else -1)
            (failed,) = unknown.partition_responses
            expected = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID
            assert (ErrorCode(failed.error_code), failed.base_offset) == (expected, -1)
            assert bool(failed.error_message) == (version >= 8)
        read = records_in((await node.fetch(client, index=1)).records)
        assert [record.value for record in read] == [b"v%d" % version for version in VERSIONS]


async def test_the_longest_topic_name_does_not_break_the_response(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        name = "x" * 32767
        request = node.produce_request({("t", 0): batch_of(b"a"), (name, 0): batch_of(b"b")})
        accepted, unknown = (await client.call(request, ProduceResponse, 9)).responses
        assert (accepted.partition_responses[0].error_code, accepted.partition_responses[0].base_offset) == (
            0,
            0,
        )
        (failed,) = unknown.partition_responses
        assert ErrorCode(failed.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (failed.error_message or "").startswith("there is no partition xxx")


@pytest.mark.parametrize("acks", [1, -1])
async def test_acks_1_and_all_have_a_response(tmp_path: Path, acks: int) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        result = await node.produce(client, batch_of(b"a", b"b", b"c"), acks=acks)
        assert (result.error_code, result.base_offset) == (0, 0)
        result = await node.produce(client, batch_of(b"d"), acks=acks)
        assert (result.error_code, result.base_offset) == (0, 3)


async def test_acks_0_has_no_response_and_an_error_closes_the_connection(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        for value in (b"a", b"b"):
            client.send(node.produce_request({("t", 0): batch_of(value)}, acks=0), 9)
        client.expect_no_responses()
        # The next response belongs to the next request that has one.
        read = await node.fetch(client)
        assert [record.value for record in records_in(read.records)] == [b"a", b"b"]
        client.send(node.produce_request({("nowhere", 0): batch_of(b"c")}, acks=0), 9)
        assert await client.read_to_the_end() == b""


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_acks_are_invalid(tmp_path: Path, acks: int) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        result = await node.produce(client, batch_of(b"a"), acks=acks)
        assert ErrorCode(result.error_code) is ErrorCode.INVALID_REQUIRED_ACKS
        assert node.partition().log.end_offset == 0


# -- idempotence ---------------------------------------------------------------------------------------------


def numbered(sequence: int, *values: bytes, epoch: int = 0, timestamp: int = NOW) -> bytearray:
    return batch_of(*values, timestamp=timestamp, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


async def test_duplicates_of_the_last_five_batches_get_their_old_offsets(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        for sequence in range(0, 12, 2):
            result = await node.produce(client, numbered(sequence, b"a", b"b"))
            assert (result.error_code, result.base_offset) == (0, sequence)
        for sequence in range(2, 12, 2):
            result = await node.produce(client, numbered(sequence, b"a", b"b"))
            assert (result.error_code, result.base_offset) == (0, sequence)
            assert result.log_append_time_ms == NOW + 1, "a duplicate gets the largest timestamp of its batch"
        oldest = await node.produce(client, numbered(0, b"a", b"b"))
        assert ErrorCode(oldest.error_code) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert node.partition().log.end_offset == 12


async def test_sequence_gaps_and_old_epochs_fail(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        assert (await node.produce(client, numbered(0, b"a", epoch=1))).error_code == 0
        for batch, code in (
            (numbered(2, b"gap", epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            (numbered(1, b"old", epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH),
            (numbered(5, b"new epoch, not from 0", epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ):
            result = await node.produce(client, batch)
            assert (ErrorCode(result.error_code), result.base_offset) == (code, -1)
        assert (await node.produce(client, numbered(1, b"b", epoch=1))).base_offset == 1
        assert (await node.produce(client, numbered(0, b"c", epoch=2))).base_offset == 2


async def test_sequences_wrap(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        # An unknown producer may begin with any sequence.
        batches = [
            numbered(MAX_SEQUENCE - 1, b"a"),
            numbered(MAX_SEQUENCE, b"b", b"c"),
            numbered(1, b"d"),
        ]
        for _ in range(2):
            results = [await node.produce(client, batch) for batch in batches]
            assert [(each.error_code, each.base_offset) for each in results] == [(0, 0), (0, 1), (0, 3)]


async def test_producer_state_survives_a_restart(tmp_path: Path) -> None:
    today = int(time.time() * 1000)  # an older producer would expire at once
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        assert (await node.produce(client, numbered(0, b"a", timestamp=today))).base_offset == 0
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        assert (await node.produce(client, numbered(0, b"a", timestamp=today))).base_offset == 0
        assert (await node.produce(client, numbered(1, b"b", timestamp=today))).base_offset == 1
        assert node.partition().log.end_offset == 2


# -- errors --------------------------------------------------------------------------------------------------


async def test_invalid_batch_does_not_affect_the_others(tmp_path: Path) -> None:
    wrong_crc = batch_of(b"a")
    wrong_crc[-1] ^= 1
    truncated = batch_of(b"a")[:-3]
    control = batch_of(b"a", attributes=CONTROL)
    failed = {
        "no records": (None, ErrorCode.INVALID_RECORD),
        "empty": (b"", ErrorCode.INVALID_RECORD),
        "truncated": (truncated, ErrorCode.INVALID_RECORD),
        "control": (control, ErrorCode.INVALID_RECORD),
        "two batches": (batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD),
        "wrong CRC": (wrong_crc, ErrorCode.CORRUPT_MESSAGE),
        "too large": (batch_of(bytes(2000)), ErrorCode.MESSAGE_TOO_LARGE),
    }
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(partitions=2, max_message_bytes="1500")
        for count, (case, (batch, code)) in enumerate(failed.items()):
            request = node.produce_request({("t", 0): batch, ("t", 1): batch_of(b"good")})
            rejected, accepted = (await client.call(request, ProduceResponse, 9)).responses
            assert ErrorCode(rejected.partition_responses[0].error_code) is code, case
            assert rejected.partition_responses[0].error_message, case
            assert accepted.partition_responses[0].base_offset == count, case
        assert node.partition().log.end_offset == 0


async def test_records_without_key_on_a_compacted_topic_are_record_errors(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(cleanup_policy="compact")
        result = await node.produce(client, batch_of(b"a", b"b"), version=8)
        assert ErrorCode(result.error_code) is ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in result.record_errors] == [0, 1]
        assert (await node.produce(client, batch_of(b"a", key=b"k"), version=8)).error_code == 0


@pytest.mark.parametrize(
    ("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)]
)
async def test_zstd_needs_version_7(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        result = await node.produce(client, batch_of(b"a" * 100, codec=Codec.ZSTD), version=version)
        assert ErrorCode(result.error_code) is code
        assert (await node.produce(client, batch_of(b"a", codec=Codec.LZ4), version=version)).error_code == 0


async def test_several_topics_and_partitions_in_one_request(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", 3)
        await node.create("u", 2)
        tps = [("t", 2), ("u", 0), ("t", 0), ("u", 1)]
        request = node.produce_request({tp: batch_of(repr(tp).encode()) for tp in tps})
        result = await client.call(request, ProduceResponse)
        for (topic, index), reported in zip(tps, result.responses, strict=True):
            assert reported.topic_id == node.topic_id(topic)
            assert (reported.partition_responses[0].index, reported.partition_responses[0].error_code) == (
                index,
                0,
            )
            read = records_in((await node.fetch(client, topic=topic, index=index)).records)
            assert [record.value for record in read] == [repr((topic, index)).encode()]


# -- configs that change while the topic is in use -----------------------------------------------------------


async def test_dynamic_configs_take_effect_at_once(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        big = batch_of(bytes(50_000))
        assert (await node.produce(client, big)).error_code == 0
        await node.alter("t", max_message_bytes="1000")
        result = await node.produce(client, big)
        assert ErrorCode(result.error_code) is ErrorCode.MESSAGE_TOO_LARGE

        await node.alter("t", compression_type="gzip", message_timestamp_type="LogAppendTime")
        before = int(time.time() * 1000)
        result = await node.produce(client, batch_of(b"squeezed" * 10))
        assert (result.error_code, result.base_offset) == (0, 1)
        assert result.log_append_time_ms >= before
        data = (await node.fetch(client, 1)).records
        assert data is not None
        assert read_header(data, 0).attributes & 7 == Codec.GZIP
        (record,) = records_in(data)
        assert (record.value, record.timestamp) == (b"squeezed" * 10, result.log_append_time_ms)

        await node.alter("t", retention_ms="3600000")
        for log in list(node.node.logs.logs.values()):
            node.node.logs.check_retention_of(log)
        assert node.partition().log.start_offset == 1, "the old record is deleted, the new one is not"


# -- syncs ---------------------------------------------------------------------------------------------------


async def test_flush_messages_1_acks_after_the_sync(tmp_path: Path, held_disks: dict[str, HeldDisk]) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        disk.syncs.clear()
        waiting = asyncio.create_task(node.produce(client, batch_of(b"a", b"b")))
        await asyncio.to_thread(disk.started.wait, 10)
        async with connected(node.bootstrap) as reader:
            seen = await node.fetch(reader)
            assert (seen.high_watermark, records_in(seen.records)) == (0, []), (
                "not committed, so not readable"
            )
            assert not waiting.done()
            long_poll = asyncio.create_task(node.fetch(reader, max_wait_ms=100_000, min_bytes=1))
            await asyncio.sleep(0.01)
            disk.free.set()
            result = await waiting
            assert (result.error_code, result.base_offset) == (0, 0)
            assert len(disk.syncs) == 1
            assert [record.value for record in records_in((await long_poll).records)] == [b"a", b"b"]


async def test_one_sync_serves_all_waiting_requests(tmp_path: Path, held_disks: dict[str, HeldDisk]) -> None:
    async with live_node(tmp_path) as node:
        await node.create(partitions=2, flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        disk.started.clear()
        disk.syncs.clear()
        async with connected(node.bootstrap) as first, connected(node.bootstrap) as second:
            first.send(node.produce_request({("t", 0): batch_of(b"0")}), 9)
            await asyncio.to_thread(disk.started.wait, 10)
            for value in range(1, 21):
                client = first if value % 2 else second
                client.send(node.produce_request({("t", value % 2): batch_of(b"%d" % value)}), 9)
            logs = [node.partition("t", index).log for index in range(2)]
            await until(lambda: sum(log.end_offset for log in logs) == 21)
            disk.free.set()
            results = [await first.receive(ProduceResponse) for _ in range(11)]
            results += [await second.receive(ProduceResponse) for _ in range(10)]
        assert {each.responses[0].partition_responses[0].error_code for each in results} == {0}
        assert len(disk.syncs) == 3, (
            "one sync for the first request, then one for each log with appends in between"
        )


async def test_flush_messages_above_1_delays_only_the_batch_that_reaches_it(
    tmp_path: Path, held_disks: dict[str, HeldDisk]
) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(flush_messages="3")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        assert (await node.produce(client, batch_of(b"a"))).base_offset == 0
        assert (await node.produce(client, batch_of(b"b"))).base_offset == 1
        due = asyncio.create_task(node.produce(client, batch_of(b"c")))
        await asyncio.to_thread(disk.started.wait, 10)
        assert not due.done()
        disk.free.set()
        assert (await due).base_offset == 2
        assert node.partition().log.recovery_point == 3


async def test_flush_ms_syncs_in_time_without_delaying_acks(
    tmp_path: Path, held_disks: dict[str, HeldDisk]
) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(flush_ms="20")
        assert (await node.produce(client, batch_of(b"a"))).base_offset == 0
        await until(lambda: node.partition().log.recovery_point == 1)
        assert any("/t-0/" in path for path in held_disks[str(tmp_path)].syncs)


async def test_a_slow_sync_times_out_without_losing_the_record(
    tmp_path: Path, held_disks: dict[str, HeldDisk]
) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        result = await node.produce(client, batch_of(b"a"), timeout_ms=20)
        assert ErrorCode(result.error_code) is ErrorCode.REQUEST_TIMED_OUT
        disk.free.set()
        assert (await node.produce(client, batch_of(b"b"))).base_offset == 1


def test_a_failed_sync_is_a_storage_error_and_never_retried(
    tmp_path: Path, held_disks: dict[str, HeldDisk], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with (
            live_node([tmp_path / "a", tmp_path / "b"]) as node,
            connected(node.bootstrap) as client,
            connected(node.bootstrap) as reader,
        ):
            await node.create("t", 4, flush_messages="1")
            held = held_disks[str(tmp_path / "b")]
            by_directory = {Path(node.partition("t", index).log.directory).name: index for index in range(4)}
            lost, kept = by_directory["b"], by_directory["a"]
            waiting_fetch = asyncio.create_task(
                node.fetch(reader, index=lost, max_wait_ms=100_000, min_bytes=1)
            )
            held.failure = OSError(errno.EIO, "Input/output error")
            held.syncs.clear()
            for _ in range(2):
                result = await node.produce(client, batch_of(b"a"), index=lost)
                assert ErrorCode(result.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
            assert len(held.syncs) == 1
            assert ErrorCode((await waiting_fetch).error_code) is ErrorCode.KAFKA_STORAGE_ERROR
            assert (await node.produce(client, batch_of(b"a"), index=kept)).error_code == 0
            old = await node.fetch(client, index=lost, version=5)
            assert ErrorCode(old.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario())
    offline = [each for each in caplog.records if "goes offline" in each.getMessage()]
    assert len(offline) == 1
    assert str(tmp_path / "b") in offline[0].getMessage()


async def test_deleting_a_topic_completes_a_produce_that_waits_for_its_sync(
    tmp_path: Path, held_disks: dict[str, HeldDisk]
) -> None:
    properties = {"log.segment.delete.delay.ms": "0"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t", flush_messages="1")
        await node.create("u", flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        disk.started.clear()
        client.send(node.produce_request({("t", 0): batch_of(b"a")}), 9)
        await asyncio.to_thread(disk.started.wait, 10)
        # This record is too late for the running sync and needs another one.
        client.send(node.produce_request({("t", 0): batch_of(b"b")}), 9)
        await until(lambda: node.partition().log.end_offset == 2)
        await node.delete("t")
        for _ in range(2):
            (result,) = (await client.receive(ProduceResponse)).responses
            code = ErrorCode(result.partition_responses[0].error_code)
            assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        run_jobs(node.node.logs, node.node.logs.trash_jobs())
        assert not any(name.startswith("t-0") for name in os.listdir(tmp_path))
        disk.free.set()
        # The deleted log is not synced again, which does not count as a disk failure.
        assert (await node.produce(client, batch_of(b"c"), topic="u")).error_code == 0
        await asyncio.sleep(0.05)
        assert (await node.produce(client, batch_of(b"d"), topic="u")).base_offset == 1


# -- order ---------------------------------------------------------------------------------------------------


async def test_produce_requests_after_a_waiting_fetch_run_after_it(tmp_path: Path) -> None:
    async with (
        live_node(tmp_path) as node,
        connected(node.bootstrap) as client,
        connected(node.bootstrap) as other,
    ):
        await node.create(partitions=2)
        waits = node.fetch_request(
            [("t", FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000))],
            max_wait_ms=100_000,
            min_bytes=1,
        )
        client.send(waits, 12)
        for value in range(5):
            client.send(node.produce_request({("t", 1): batch_of(b"%d" % value)}), 9)
        connections = node.node._broker_server.connections
        await until(lambda: any(each.pending_responses for each in connections))
        assert (await node.produce(other, batch_of(b"first"), index=1)).base_offset == 0
        assert (await node.produce(other, batch_of(b"wake"))).base_offset == 0
        fetched = await client.receive(FetchResponse)
        assert [r.value for r in records_in(fetched.responses[0].partitions[0].records)] == [b"wake"]
        offsets = []
        for _ in range(5):
            result = await client.receive(ProduceResponse)
            offsets.append(result.responses[0].partition_responses[0].base_offset)
        assert offsets == [1, 2, 3, 4, 5]
