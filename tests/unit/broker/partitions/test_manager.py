"""The partitions of a broker follow the metadata; a failed log directory takes its partitions offline."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from ruslo.broker.scheduling import scheduler
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import random_uuid
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ruslo.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.storage.disk import DiskError
from ruslo.storage.partition_files import format_partition_metadata
from tests.support.brokers.live_node import LiveNode, batch_of, live_node, records_in, run
from tests.support.clients.raw_client import connected


def fail(node: LiveNode, directory: Path) -> None:
    error = DiskError(str(directory), f"{directory}/t-0/x.log", "write to", OSError(errno.EIO, "I/O error"))
    node.node.broker.partitions.storage_failed(error)


def error_of(node: LiveNode, topic: str, index: int) -> ErrorCode:
    with pytest.raises(KafkaError) as missing:
        node.node.broker.partitions.get(topic, index)
    return missing.value.code


async def test_topics_are_created_expanded_and_deleted(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        manager = node.node.broker.partitions
        topic_id = await node.create("t", 2)
        assert set(manager.by_name["t"]) == {0, 1}
        assert manager.by_id[topic_id] == manager.by_name["t"]
        assert all(partition.is_leader for partition in manager)
        assert error_of(node, "t", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        expansion = CreatePartitionsTopic(name="t", count=5, assignments=None)
        request = CreatePartitionsRequest(topics=[expansion], timeout_ms=1000)
        (expanded,) = (await client.call(request, CreatePartitionsResponse)).results
        assert expanded.error_code == 0
        assert set(manager.by_name["t"]) == set(range(5))
        assert (await node.produce(client, batch_of(b"a"), index=4)).error_code == 0

        await node.delete("t")
        assert "t" not in manager.by_name
        assert topic_id not in manager.by_id
        assert error_of(node, "t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert manager.missing(topic_id, 0).code is ErrorCode.UNKNOWN_TOPIC_ID

        again = await node.create("t", 1)
        assert again != topic_id
        assert (await node.produce(client, batch_of(b"b"))).base_offset == 0


async def test_many_partitions_are_created_and_deleted_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice creates one partition. A recreated topic waits for the deletion of the old one."""
    monkeypatch.setattr(scheduler, "SLICE_NS", 0)
    async with live_node(tmp_path) as node:
        manager = node.node.broker.partitions
        sizes: list[int] = []

        async def watch(change: asyncio.Task[object]) -> None:
            while not change.done():
                sizes.append(len(manager.by_name.get("t", {})))
                await asyncio.sleep(0)

        for count in (100, 110):
            await watch(asyncio.create_task(node.create("t", count)))
            assert set(manager.by_name["t"]) == set(range(count))
            await watch(asyncio.create_task(node.delete("t")))
            assert "t" not in manager.by_name
            assert set(sizes) == set(range(count + 1))
            assert max(abs(after - before) for before, after in pairwise(sizes)) == 1
            sizes.clear()


async def test_partitions_are_served_again_after_a_restart(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", 3, retention_bytes="123456")
        await node.produce(client, batch_of(b"a", b"b"), index=2)
        epoch = node.partition("t", 2).leader_epoch
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        partition = node.partition("t", 2)
        assert partition.leader_epoch > epoch
        assert partition.log.config.retention_bytes == 123456
        read = records_in((await node.fetch(client, index=2)).records)
        assert [record.value for record in read] == [b"a", b"b"]
        assert (await node.produce(client, batch_of(b"c"), index=2)).base_offset == 2


def test_logs_unknown_to_the_metadata_become_strays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run_node() -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            await node.create("t")
            await node.produce(client, batch_of(b"a"))
        shutil.copytree(tmp_path / "t-0", tmp_path / "unknown-0")
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            assert "unknown" not in node.node.broker.partitions.by_name
            assert len(records_in((await node.fetch(client)).records)) == 1
        # The log belongs to another topic of the same name.
        path = tmp_path / "t-0" / "partition.metadata"
        path.write_bytes(format_partition_metadata(random_uuid()))
        async with live_node(tmp_path) as node:
            assert node.partition("t", 0).log.end_offset == 0
        assert path.exists()

    run(run_node())
    strays = sorted(name for name in os.listdir(tmp_path) if name.endswith("-stray"))
    assert [name.split(".")[0] for name in strays] == ["t-0", "unknown-0"]
    assert "unknown-0 is not in the metadata" in caplog.text
    assert "belongs to a deleted topic of that name" in caplog.text


def test_a_failed_directory_takes_only_its_own_partitions_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run_node() -> None:
        directories = [tmp_path / "a", tmp_path / "b"]
        async with live_node(directories) as node, connected(node.bootstrap) as client:
            topic_id = await node.create("t", 4)
            manager = node.node.broker.partitions
            failed = [p.index for p in manager.in_directory(str(directories[1]))]
            kept = [p.index for p in manager.in_directory(str(directories[0]))]
            assert len(failed) == len(kept) == 2
            fail(node, directories[1])
            fail(node, directories[1])
            assert manager.directories() == [(str(directories[0]), True), (str(directories[1]), False)]
            for index in failed:
                assert error_of(node, "t", index) is ErrorCode.KAFKA_STORAGE_ERROR
                assert manager.missing(topic_id, index).code is ErrorCode.KAFKA_STORAGE_ERROR
                result = await node.produce(client, batch_of(b"a"), index=index)
                assert ErrorCode(result.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
                data = await node.fetch(client, index=index, version=13)
                assert ErrorCode(data.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
            for index in kept:
                assert (await node.produce(client, batch_of(b"a"), index=index)).error_code == 0
            # New partitions go to the online directory; deleting the topic deletes the logs there.
            await node.create("u", 2)
            assert {p.log.directory for p in manager.by_name["u"].values()} == {str(directories[0])}
            await node.delete("t")
            assert error_of(node, "t", failed[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            # A new topic of that name does not use the failed directory.
            await node.create("t", 4)
            for index in range(4):
                assert (await node.produce(client, batch_of(b"b"), index=index)).error_code == 0
            await node.delete("t")
            assert node.node.failure is None
        # After a restart the directory is online again.
        async with live_node(directories) as node, connected(node.bootstrap) as client:
            assert {each[1] for each in node.node.broker.partitions.directories()} == {True}
            assert set(node.node.broker.partitions.by_name) == {"u"}

    run(run_node())
    assert caplog.text.count("goes offline") == 1


async def test_an_offline_replica_may_be_reassigned_and_return(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    async with live_node(directories) as node:
        topic_id = await node.create("t", 2)
        manager = node.node.broker.partitions
        (lost,) = manager.in_directory(str(directories[1]))
        fail(node, directories[1])

        def moved_to(broker_id: int) -> None:
            metadata = node.node.metadata
            change = PartitionChangeRecord(
                topic_id=topic_id,
                partition_id=lost.index,
                leader=broker_id,
                isr=[broker_id],
                replicas=[broker_id],
            )
            metadata.handle_commit(metadata.image.offset + 1, metadata.image.epoch, [change])

        moved_to(99)
        await manager.applied()
        assert error_of(node, "t", lost.index) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        moved_to(node.node.config.node_id)
        await manager.applied()
        again = manager.get("t", lost.index)
        assert (again.log.directory, again.log.failure) == (str(directories[0]), None)


async def test_data_of_a_failed_directory_is_served_after_a_restart(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    async with live_node(directories) as node, connected(node.bootstrap) as client:
        await node.create("t", 2)
        index = next(i for i in (0, 1) if node.partition("t", i).log.directory.endswith("b"))
        await node.produce(client, batch_of(b"precious"), index=index)
        fail(node, directories[1])
    async with live_node(directories) as node, connected(node.bootstrap) as client:
        read = records_in((await node.fetch(client, index=index)).records)
        assert [record.value for record in read] == [b"precious"]


async def test_the_node_stops_without_its_last_log_directory(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        await node.create()
        fail(node, tmp_path)
        async with asyncio.timeout(60):
            await node.node.wait_for_stop()
        assert node.node.failure is not None
        assert str(tmp_path) in node.node.failure


async def test_the_node_stops_without_its_metadata_log_directory(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    async with live_node(directories) as node:
        await node.create("t", 2)
        assert node.node.config.metadata_log_dir == str(directories[0])
        fail(node, directories[0])
        async with asyncio.timeout(60):
            await node.node.wait_for_stop()
        assert node.node.failure is not None
        assert "metadata" in node.node.failure
