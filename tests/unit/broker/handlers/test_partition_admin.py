"""OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs and DescribeProducers over the wire."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ruslo.protocol.messages.delete_records_response import DeleteRecordsResponse
from ruslo.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from ruslo.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ruslo.protocol.messages.describe_producers_response import DescribeProducersResponse
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ruslo.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ruslo.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from ruslo.storage.disk import DiskError
from tests.support.brokers.live_node import NOW, batch_of, live_node
from tests.support.brokers.metrics import scrape
from tests.support.clients.raw_client import RawClient, connected

Epochs = list[tuple[ErrorCode, int, int]]


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_offset_for_leader_epoch(tmp_path: Path, version: int) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await node.produce(client, batch_of(b"a", b"b"))
        node.partition().become_leader(3)
        await node.produce(client, batch_of(b"c"))

        async def ends(*epochs: int, current: int = -1, topic: str = "t") -> list[tuple[ErrorCode, int, int]]:
            partitions = [
                OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
                for epoch in epochs
            ]
            request = OffsetForLeaderEpochRequest(
                topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions)]
            )
            (result,) = (await client.call(request, OffsetForLeaderEpochResponse, version)).topics
            return [(ErrorCode(e.error_code), e.leader_epoch, e.end_offset) for e in result.partitions]

        none = ErrorCode.NONE
        assert await ends(0, 1, 2, 3, 4) == [
            (none, 0, 2),
            (none, 0, 2),
            (none, 0, 2),
            (none, 3, 3),
            (none, -1, -1),
        ]
        assert await ends(0, current=2) == [(ErrorCode.FENCED_LEADER_EPOCH, -1, -1)]
        assert await ends(0, current=4) == [(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)]
        assert await ends(0, topic="x") == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)]


async def delete_before(
    client: RawClient, offset: int, version: int = 2, topic: str = "t", index: int = 0
) -> tuple[ErrorCode, int]:
    partition = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=1000
    )
    (result,) = (await client.call(request, DeleteRecordsResponse, version)).topics
    return ErrorCode(result.partitions[0].error_code), result.partitions[0].low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_delete_records(tmp_path: Path, version: int) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await node.produce(client, batch_of(*(b"%d" % n for n in range(10))))
        none = ErrorCode.NONE
        assert await delete_before(client, 4, version) == (none, 4)
        assert await delete_before(client, 2, version) == (none, 4), "the log start offset never decreases"
        assert await delete_before(client, 11, version) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete_before(client, -2, version) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        data = await node.fetch(client, 3)
        assert ErrorCode(data.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
        data = await node.fetch(client, 4)
        assert (data.error_code, data.log_start_offset) == (0, 4)
        assert await delete_before(client, -1, version) == (none, 10)
        assert await delete_before(client, -1, version, topic="x") == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            -1,
        )
    async with live_node(tmp_path) as node:
        assert node.partition().log.start_offset == 10, "the log start offset survives a restart"


async def test_delete_records_of_a_compacted_topic(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", cleanup_policy="compact")
        await node.create("both", cleanup_policy="compact,delete")
        assert await delete_before(client, 0) == (ErrorCode.POLICY_VIOLATION, -1)
        assert await delete_before(client, 0, topic="both") == (ErrorCode.NONE, 0)
        # Records of coordinators must not be deleted, whatever the topic configs are.
        await node.create("__consumer_offsets", cleanup_policy="compact,delete")
        assert await delete_before(client, -1, topic="__consumer_offsets") == (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            -1,
        )


@pytest.mark.parametrize("version", range(1, 6))
async def test_describe_log_dirs(tmp_path: Path, version: int) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    async with live_node(directories) as node, connected(node.bootstrap) as client:
        await node.create("t", 4)
        await node.create("u")
        size = len(batch_of(b"x" * 100))
        await node.produce(client, batch_of(b"x" * 100), index=1)
        result = await client.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version)
        assert result.error_code == 0
        assert [each.log_dir for each in result.results] == [str(path) for path in directories]
        reported = {
            (topic.name, partition.partition_index): (partition.partition_size, partition.offset_lag)
            for each in result.results
            for topic in each.topics
            for partition in topic.partitions
        }
        assert reported == {("t", i): (size if i == 1 else 0, 0) for i in range(4)} | {("u", 0): (0, 0)}
        for each in result.results:
            assert each.error_code == 0
            assert each.topics, "partitions are spread over the directories"
            if version >= 4:
                assert 0 < each.usable_bytes <= each.total_bytes

        some = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[1, 9])])
        result = await client.call(some, DescribeLogDirsResponse, version)
        assert [
            (topic.name, [each.partition_index for each in topic.partitions])
            for result in result.results
            for topic in result.topics
        ] == [("t", [1])]

        error = DiskError(str(directories[1]), "file", "write to", OSError(5, "Input/output error"))
        node.node.broker.partitions.storage_failed(error)
        result = await client.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version)
        online, lost = result.results
        assert online.error_code == 0
        assert (ErrorCode(lost.error_code), lost.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


async def test_cordoned_log_dirs(tmp_path: Path) -> None:
    """Dynamic and static cordons: no new partitions, shown by DescribeLogDirs (KIP-1066)."""
    directories = [tmp_path / "a", tmp_path / "b"]
    async with live_node(directories) as node, connected(node.bootstrap) as client:

        async def cordon(*paths: Path) -> list[bool]:
            config = AlterableConfig(name="cordoned.log.dirs", value=",".join(map(str, paths)))
            own = str(node.node.config.node_id)
            resource = AlterConfigsResource(resource_type=4, resource_name=own, configs=[config])
            request = IncrementalAlterConfigsRequest(resources=[resource])
            (altered,) = (await client.call(request, IncrementalAlterConfigsResponse)).responses
            assert altered.error_code == 0, altered.error_message
            result = await client.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
            return [each.is_cordoned for each in result.results]

        async def create(name: str) -> ErrorCode:
            topic = CreatableTopic(name=name, num_partitions=4, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
            (made,) = (await client.call(request, CreateTopicsResponse)).topics
            return ErrorCode(made.error_code)

        assert await cordon() == [False, False]
        assert await cordon(directories[0]) == [True, False]
        assert (await scrape(node.node)).value("kafka_log_logmanager_cordonedlogdirectorycount") == 1
        async with Admin(node.bootstrap) as admin:
            assert [each.cordoned for each in await admin.log_dirs.describe(1)] == [True, False]
        assert await create("one") is ErrorCode.NONE
        assert {each.log.directory for each in node.node.broker.partitions} == {str(directories[1])}
        assert await cordon(*directories) == [True, True]
        async with asyncio.timeout(30):
            # The next heartbeat, which is sent at once, reports it to the controller.
            while node.node.metadata.image.cluster.brokers[1].accepts_new_replicas:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert await create("two") is ErrorCode.INVALID_REPLICATION_FACTOR

    async with live_node(directories, {"cordoned.log.dirs": "*"}) as node:
        cordoned = [each.cordoned for each in node.node.logs.directories]
        assert cordoned == [True, True], "the dynamic config applies"


async def test_describe_log_dirs_of_a_volume_beyond_64_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        most = 2**64 - 1
        endless = os.statvfs_result((4096, 4096, most, most, most, 0, 0, 0, 0, 255))
        monkeypatch.setattr("os.statvfs", lambda path: endless)
        result = await client.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        assert [(each.total_bytes, each.usable_bytes) for each in result.results] == [(2**63 - 1,) * 2]


async def test_describe_log_dirs_of_a_missing_directory(tmp_path: Path) -> None:
    async with live_node([tmp_path / "a", tmp_path / "b"]) as node, connected(node.bootstrap) as client:
        (tmp_path / "b").rename(tmp_path / "moved")
        result = await client.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        assert [ErrorCode(each.error_code) for each in result.results] == [
            ErrorCode.NONE,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ]
        (tmp_path / "moved").rename(tmp_path / "b")


async def test_describe_producers(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create(partitions=2)
        await node.produce(client, batch_of(b"plain"))
        for sequence in (0, 2):
            batch = batch_of(b"a", b"b", producer_id=9, producer_epoch=4, base_sequence=sequence)
            await node.produce(client, batch)
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name="t", partition_indexes=[0, 1, 2]),
                TopicRequest(name="x", partition_indexes=[0]),
            ]
        )
        known, unknown = (await client.call(request, DescribeProducersResponse)).topics
        with_producer, without, missing = known.partitions
        (producer,) = with_producer.active_producers
        assert (producer.producer_id, producer.producer_epoch) == (9, 4)
        assert (producer.last_sequence, producer.last_timestamp) == (3, NOW + 1)
        assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
        assert (without.error_code, without.active_producers) == (0, [])
        for each in (missing, unknown.partitions[0]):
            assert ErrorCode(each.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert each.error_message
        # Followers respond too: "kafka-transactions find-hanging" queries one broker for all it hosts.
        node.partition().become_follower(2, 7)
        known, _ = (await client.call(request, DescribeProducersResponse)).topics
        assert known.partitions[0] == with_producer
