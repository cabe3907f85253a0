"""AlterReplicaLogDirs over the wire, on a node with three log directories."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ruslo.protocol.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from ruslo.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ruslo.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from ruslo.records.batch import TRANSACTIONAL
from ruslo.storage.disk import DiskError
from tests.support.brokers.live_node import NOW, LiveNode, batch_of, live_node, records_in, until
from tests.support.clients.raw_client import RawClient, connected

RATE = "replica_alter_log_dirs_io_max_bytes_per_second"


@contextlib.asynccontextmanager
async def node_with_topic(tmp_path: Path, **settings: str) -> AsyncIterator[tuple[LiveNode, RawClient]]:
    directories = [tmp_path / name for name in "abc"]
    async with live_node(directories) as node, connected(node.bootstrap) as client:
        if "t" not in node.node.broker.partitions.by_name:
            await node.create("t", 1, **settings)
        yield node, client


async def alter(
    client: RawClient, path: Path | str, topic: str = "t", index: int = 0, version: int = 2
) -> ErrorCode:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])]
            )
        ]
    )
    (result,) = (await client.call(request, AlterReplicaLogDirsResponse, version)).results
    assert (result.topic_name, result.partitions[0].partition_index) == (topic, index)
    return ErrorCode(result.partitions[0].error_code)


async def described(client: RawClient) -> dict[str, list[tuple[bool, int]]]:
    """By directory: whether each replica of the topic there is a copy, and its lag."""
    response = await client.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    return {
        Path(result.log_dir).name: found
        for result in response.results
        if (
            found := [
                (each.is_future_key, each.offset_lag)
                for topic in result.topics
                if topic.name == "t"
                for each in topic.partitions
            ]
        )
    }


def directory(node: LiveNode) -> Path:
    return Path(node.partition().log.directory)


def others(node: LiveNode, tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "abc" if tmp_path / name != directory(node)]


async def values(node: LiveNode, client: RawClient) -> list[bytes | None]:
    found: list[bytes | None] = []
    log = node.partition().log
    offset = 0
    while offset < log.high_watermark:
        data = await node.fetch(client, offset)
        records = [each for each in records_in(data.records) if each.offset >= offset]
        found += [each.value for each in records]
        offset = records[-1].offset + 1
    return found


async def moved_to(node: LiveNode, path: Path) -> None:
    await until(lambda: directory(node) == path)
    image = node.node.metadata.image.topics.by_name["t"].partitions[0]
    directories = node.node.broker.partitions._logs.directories
    (wanted,) = (each.directory_id for each in directories if each.path == str(path))
    assert image.directory_of(1) == wanted, "the metadata names the directory before the log is there"


@pytest.mark.parametrize("version", [1, 2])
async def test_a_replica_moves_while_producers_write(tmp_path: Path, version: int) -> None:
    async with node_with_topic(tmp_path, segment_bytes="1048576") as (node, client):
        sent = [b"%d" % number for number in range(200)]
        for value in sent:
            await node.produce(client, batch_of(value * 5000))
        target = others(node, tmp_path)[0]
        assert await alter(client, target, version=version) is ErrorCode.NONE
        number = 200
        while directory(node) != target:
            result = await node.produce(client, batch_of(b"%d" % number * 5000))
            assert (result.error_code, result.base_offset) == (0, number)
            number += 1
        await moved_to(node, target)
        await node.produce(client, batch_of(b"last"))
        expected = [b"%d" % each * 5000 for each in range(number)] + [b"last"]
        assert await values(node, client) == expected
        assert await described(client) == {target.name: [(False, 0)]}
    async with node_with_topic(tmp_path) as (node, client):
        assert directory(node) == target
        assert await values(node, client) == expected


async def test_a_throttled_move_is_described_and_cancelled(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as (node, client):
        await node.alter_all_brokers(**{RATE: "1"})
        for _ in range(4):
            await node.produce(client, batch_of(b"x" * 900_000))
        source, (first, second) = directory(node), others(node, tmp_path)
        assert await alter(client, first) is ErrorCode.NONE
        moves = node.node.broker._log_dir_moves
        await until(lambda: len(moves) == 1)
        assert (await described(client))[first.name][0][0]
        assert await alter(client, first) is ErrorCode.NONE, "the move goes on"
        assert await alter(client, second) is ErrorCode.NONE, "another target replaces the first"
        now = await described(client)
        assert set(now) == {source.name, second.name}
        assert now[second.name][0][0]
        assert await alter(client, source) is ErrorCode.NONE, "the present directory cancels the move"
        assert await described(client) == {source.name: [(False, 0)]}
        assert len(moves) == 0
        assert len(await values(node, client)) == 4


async def test_a_restart_continues_a_move(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as (node, client):
        await node.alter_all_brokers(**{RATE: "1"})
        for _ in range(4):
            await node.produce(client, batch_of(b"x" * 900_000))
        target = others(node, tmp_path)[0]
        assert await alter(client, target) is ErrorCode.NONE
        copies = node.node.broker.partitions._logs.directories
        await until(lambda: any(f.end_offset for each in copies for f in each.futures.values()))
    async with node_with_topic(tmp_path) as (node, client):
        lag = (await described(client))[target.name][0]
        assert lag[0]
        assert 0 < lag[1] < 4, "the copy goes on where it was"
        await node.alter_all_brokers(**{RATE: "100000000"})
        await moved_to(node, target)
        assert len(await values(node, client)) == 4


async def test_errors_as_in_apache_kafka(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as (node, client):
        target, other = others(node, tmp_path)
        assert await alter(client, tmp_path / "elsewhere") is ErrorCode.LOG_DIR_NOT_FOUND
        assert await alter(client, target, "x") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(client, target, index=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(client, target, "n" * 220) is ErrorCode.INVALID_TOPIC_EXCEPTION
        # The preference for a topic that does not exist yet was remembered.
        await node.create("x")
        assert node.partition("x").log.directory == str(target)
        node.node.broker._shared.logs.cordon([str(other)])
        assert await alter(client, other) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        node.node.broker._shared.logs.cordon([])
        logs = node.node.broker._shared.logs
        logs.report(DiskError(str(other), str(other), "write", OSError(5, "broken")))
        if directory(node) != tmp_path / "a":
            return
        assert await alter(client, other) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await alter(client, target) is ErrorCode.KAFKA_STORAGE_ERROR, "it may have another copy"


async def begin(node: LiveNode, client: RawClient, target: Path, records: int = 4) -> None:
    """Begin a move that does not end by itself."""
    await node.alter_all_brokers(**{RATE: "1"})
    for _ in range(records):
        await node.produce(client, batch_of(b"x" * 900_000))
    assert await alter(client, target) is ErrorCode.NONE
    logs = node.node.broker._shared.logs
    await until(lambda: any(each.end_offset for each in logs.moving_to(str(target))))


def folders(path: Path) -> Iterable[str]:
    return [each.name for each in path.iterdir() if each.name.startswith("t-") and each.is_dir()]


async def test_the_topic_is_deleted(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as (node, client):
        target = others(node, tmp_path)[0]
        await begin(node, client, target)
        await node.delete()
        await until(lambda: "t" not in node.node.broker.partitions.by_name)
        assert all(name.endswith("-delete") for name in folders(target))
        moves = node.node.broker._log_dir_moves
        await until(lambda: len(moves) == 0)
        await node.create("t")
        await node.produce(client, batch_of(b"new"))
        await node.alter_all_brokers(**{RATE: "100000000"})
        path = others(node, tmp_path)[0]
        assert await alter(client, path) is ErrorCode.NONE
        await moved_to(node, path)
        assert await values(node, client) == [b"new"]


async def test_the_target_fails(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as (node, client):
        targets = [each for each in others(node, tmp_path) if each.name != "a"]
        await begin(node, client, targets[0])
        logs = node.node.broker._shared.logs
        logs.report(DiskError(str(targets[0]), str(targets[0]), "write", OSError(5, "broken")))
        moves = node.node.broker._log_dir_moves
        await until(lambda: len(moves) == 0)
        await node.produce(client, batch_of(b"after"))
        assert len(await values(node, client)) == 5, "the replica stays in its directory"


async def test_the_source_fails_and_the_next_start_goes_on(tmp_path: Path) -> None:
    """A copy that lacks records is not used: the partition is offline until the disk is back."""
    source, target = tmp_path / "b", tmp_path / "c"
    async with node_with_topic(tmp_path) as (node, client):
        assert await alter(client, source) is ErrorCode.NONE
        await moved_to(node, source)
        await begin(node, client, target)
        node.node.broker._shared.logs.report(
            DiskError(str(source), str(source), "read", OSError(5, "broken"))
        )
        moves = node.node.broker._log_dir_moves
        await until(lambda: len(moves) == 0)
        response = await node.produce(client, batch_of(b"lost?"))
        assert ErrorCode(response.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
        assert [name.endswith("-future") for name in folders(target)] == [True]
        assert await alter(client, target) is ErrorCode.KAFKA_STORAGE_ERROR
    async with node_with_topic(tmp_path) as (node, client):
        assert directory(node) == source
        await node.alter_all_brokers(**{RATE: "100000000"})
        await moved_to(node, target)
        assert await values(node, client) == [b"x" * 900_000] * 4


async def test_records_are_deleted_meanwhile(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as (node, client):
        target = others(node, tmp_path)[0]
        await begin(node, client, target)
        node.partition().log.delete_records_before(3)
        await node.alter_all_brokers(**{RATE: "100000000"})
        await moved_to(node, target)
        assert node.partition().log.start_offset == 3
    async with node_with_topic(tmp_path) as (node, client):
        assert (node.partition().log.start_offset, node.partition().log.end_offset) == (3, 4)


async def test_a_log_start_inside_a_batch_survives_a_crash_after_the_move(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as (node, client):
        await node.produce(client, batch_of(b"a", b"b", b"c"))
        node.partition().log.delete_records_before(2)
        target = others(node, tmp_path)[0]
        assert await alter(client, target) is ErrorCode.NONE
        await moved_to(node, target)
        assert (node.partition().log.start_offset, node.partition().log.segments[0].base_offset) == (2, 0)
        assert "t 0 2" in (target / "log-start-offset-checkpoint").read_text().splitlines()


async def test_an_open_transaction_and_synced_acks(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path, flush_messages="1") as (node, client):
        log = node.partition().log
        batch = batch_of(b"a", producer_id=9, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
        result = node.partition().append_transactional(
            memoryview(batch),
            node.partition().check(memoryview(batch)),
            NOW,
            transaction_v2=False,
            guard=None,
        )
        assert result.base_offset == 0
        await node.produce(client, batch_of(b"b"))
        for _ in range(3):
            target = others(node, tmp_path)[0]
            assert await alter(client, target) is ErrorCode.NONE
            await moved_to(node, target)
            async with asyncio.timeout(10):
                assert (await node.produce(client, batch_of(b"c"))).error_code == 0
        assert log is node.partition().log
        assert (log.last_stable_offset, log.recovery_point, log.end_offset) == (0, 5, 5)
