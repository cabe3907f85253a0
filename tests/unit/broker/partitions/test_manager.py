"""The partitions of a broker follow the metadata; lost directories take theirs with them."""

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


def lose(node: LiveNode, directory: Path) -> None:
    error = DiskError(str(directory), f"{directory}/t-0/x.log", "write to", OSError(errno.EIO, "dead"))
    node.node.broker.partitions.storage_failed(error)


def why_missing(node: LiveNode, topic: str, index: int) -> ErrorCode:
    with pytest.raises(KafkaError) as missing:
        node.node.broker.partitions.get(topic, index)
    return missing.value.code


async def test_topics_come_grow_and_go(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        manager = node.node.broker.partitions
        topic_id = await node.create("t", 2)
        assert set(manager.by_name["t"]) == {0, 1}
        assert manager.by_id[topic_id] == manager.by_name["t"]
        assert all(partition.is_leader for partition in manager)
        assert why_missing(node, "t", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        growing = CreatePartitionsTopic(name="t", count=5, assignments=None)
        request = CreatePartitionsRequest(topics=[growing], timeout_ms=1000)
        (grown,) = (await client.call(request, CreatePartitionsResponse)).results
        assert grown.error_code == 0
        assert set(manager.by_name["t"]) == set(range(5))
        assert (await node.produce(client, batch_of(b"a"), index=4)).error_code == 0

        await node.delete("t")
        assert "t" not in manager.by_name
        assert topic_id not in manager.by_id
        assert why_missing(node, "t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert manager.missing(topic_id, 0).code is ErrorCode.UNKNOWN_TOPIC_ID

        again = await node.create("t", 1)
        assert again != topic_id
        assert (await node.produce(client, batch_of(b"b"))).base_offset == 0


async def test_many_partitions_come_and_go_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice without time holds one partition; a topic that is created again waits for the old one."""
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


def test_logs_that_the_cluster_does_not_know_are_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            await node.create("t")
            await node.produce(client, batch_of(b"a"))
        shutil.copytree(tmp_path / "t-0", tmp_path / "unknown-0")
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            assert "unknown" not in node.node.broker.partitions.by_name
            assert len(records_in((await node.fetch(client)).records)) == 1
        # Another topic of the same name: the data is not its own.
        path = tmp_path / "t-0" / "partition.metadata"
        path.write_bytes(format_partition_metadata(random_uuid()))
        async with live_node(tmp_path) as node:
            assert node.partition("t", 0).log.end_offset == 0
        assert path.exists()

    run(story())
    strays = sorted(name for name in os.listdir(tmp_path) if name.endswith("-stray"))
    assert [name.split(".")[0] for name in strays] == ["t-0", "unknown-0"]
    assert "unknown-0 is not in the metadata" in caplog.text
    assert "belongs to another topic of that name" in caplog.text


def test_a_lost_directory_takes_only_its_own_partitions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        directories = [tmp_path / "a", tmp_path / "b"]
        async with live_node(directories) as node, connected(node.bootstrap) as client:
            topic_id = await node.create("t", 4)
            manager = node.node.broker.partitions
            lost = [p.index for p in manager.in_directory(str(directories[1]))]
            kept = [p.index for p in manager.in_directory(str(directories[0]))]
            assert len(lost) == len(kept) == 2
            lose(node, directories[1])
            lose(node, directories[1])
            assert manager.directories() == [(str(directories[0]), True), (str(directories[1]), False)]
            for index in lost:
                assert why_missing(node, "t", index) is ErrorCode.KAFKA_STORAGE_ERROR
                assert manager.missing(topic_id, index).code is ErrorCode.KAFKA_STORAGE_ERROR
                answer = await node.produce(client, batch_of(b"a"), index=index)
                assert ErrorCode(answer.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
                data = await node.fetch(client, index=index, version=13)
                assert ErrorCode(data.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
            for index in kept:
                assert (await node.produce(client, batch_of(b"a"), index=index)).error_code == 0
            # New partitions go where there is room; the topic's deletion cleans up what it can.
            await node.create("u", 2)
            assert {p.log.directory for p in manager.by_name["u"].values()} == {str(directories[0])}
            await node.delete("t")
            assert why_missing(node, "t", lost[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            # Another topic of its name has nothing to do with what is lost.
            await node.create("t", 4)
            for index in range(4):
                assert (await node.produce(client, batch_of(b"b"), index=index)).error_code == 0
            await node.delete("t")
            assert node.node.failure is None
        # Once it is back, so are its partitions.
        async with live_node(directories) as node, connected(node.bootstrap) as client:
            assert {each[1] for each in node.node.broker.partitions.directories()} == {True}
            assert set(node.node.broker.partitions.by_name) == {"u"}

    run(story())
    assert caplog.text.count("goes offline") == 1


async def test_a_replica_whose_directory_is_lost_may_go_and_come_back(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    async with live_node(directories) as node:
        topic_id = await node.create("t", 2)
        manager = node.node.broker.partitions
        (lost,) = manager.in_directory(str(directories[1]))
        lose(node, directories[1])

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
        assert why_missing(node, "t", lost.index) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        moved_to(node.node.config.node_id)
        again = manager.get("t", lost.index)
        assert (again.log.directory, again.log.failure) == (str(directories[0]), None)


async def test_data_of_a_lost_directory_is_there_after_a_restart(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    async with live_node(directories) as node, connected(node.bootstrap) as client:
        await node.create("t", 2)
        index = next(i for i in (0, 1) if node.partition("t", i).log.directory.endswith("b"))
        await node.produce(client, batch_of(b"precious"), index=index)
        lose(node, directories[1])
    async with live_node(directories) as node, connected(node.bootstrap) as client:
        read = records_in((await node.fetch(client, index=index)).records)
        assert [record.value for record in read] == [b"precious"]


async def test_without_the_last_directory_the_node_stops(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        await node.create()
        lose(node, tmp_path)
        async with asyncio.timeout(60):
            await node.node.wait_for_stop()
        assert node.node.failure is not None
        assert str(tmp_path) in node.node.failure


async def test_without_the_directory_of_the_metadata_log_the_node_stops(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    async with live_node(directories) as node:
        await node.create("t", 2)
        assert node.node.config.metadata_log_dir == str(directories[0])
        lose(node, directories[0])
        async with asyncio.timeout(60):
            await node.node.wait_for_stop()
        assert node.node.failure is not None
        assert "metadata" in node.node.failure
