"""A whole node inside the test's own event loop, and the requests that tests of the data path share."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvloop

from ruslo.broker.node.node import Node
from ruslo.broker.partitions.partition import Partition
from ruslo.config.broker import BrokerConfig
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ruslo.protocol.messages.delete_topics_response import DeleteTopicsResponse
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import FetchResponse, PartitionData
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ruslo.records.builder import build_batch
from ruslo.records.reader import iter_batches, read_records
from ruslo.records.record import Record
from ruslo.storage import log_manager
from ruslo.storage.disk import DiskError
from ruslo.storage.local_disk import LocalDisk, LocalFile
from ruslo.testing.cluster_layout import format_single_node, single_node_properties
from tests.support.clients.raw_client import RawClient, connected

NOW = 1_700_000_000_000
PRODUCE_IDS_FROM = 13
FETCH_IDS_FROM = 13
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32


def run(coroutine: Coroutine[Any, Any, None], timeout_s: float = 30) -> None:
    """Run a coroutine on the event loop that the broker uses in production."""

    async def bounded() -> None:
        async with asyncio.timeout(timeout_s):
            await coroutine

    uvloop.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; the time limit of the test ends an endless wait."""
    while not condition():  # noqa: ASYNC110 (the condition has no event)
        await asyncio.sleep(0.001)


def batch_of(*values: bytes, timestamp: int = NOW, key: bytes | None = None, **settings: int) -> bytearray:
    """A batch as a producer sends it; timestamps increase by one per record."""
    records = [Record(at, timestamp + at, key, value) for at, value in enumerate(values)]
    return build_batch(records, **settings)


def records_in(data: bytes | bytearray | memoryview | None) -> list[Record]:
    """All records of the complete batches in a fetch response; an incomplete last batch is ignored."""
    view = memoryview(data or b"")
    return [
        record
        for at, header in iter_batches(view)
        for record in read_records(view[at : at + header.length + 12])
    ]


class LiveNode:
    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap

    def topic_id(self, name: str) -> Uuid:
        return self.node.metadata.image.topics.by_name[name].id

    def partition(self, topic: str = "t", index: int = 0) -> Partition:
        return self.node.broker.partitions.by_name[topic][index]

    async def create(self, name: str = "t", partitions: int = 1, **settings: str) -> Uuid:
        """Configs are written with underscores: ``max_message_bytes="100"``."""
        configs = [CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in settings.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        async with connected(self.bootstrap) as client:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
            (result,) = (await client.call(request, CreateTopicsResponse)).topics
        assert result.error_code == 0, result.error_message
        return result.topic_id

    async def delete(self, name: str = "t") -> None:
        async with connected(self.bootstrap) as client:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000)
            (result,) = (await client.call(request, DeleteTopicsResponse)).responses
        assert result.error_code == 0, result.error_message

    async def alter(self, name: str, **settings: str) -> None:
        await self._alter(TOPIC_RESOURCE, name, settings)

    async def alter_all_brokers(self, **settings: str) -> None:
        await self._alter(BROKER_RESOURCE, "", settings)

    async def alter_group(self, group: str, **settings: str) -> None:
        await self._alter(GROUP_RESOURCE, group, settings)

    async def _alter(self, resource_type: int, name: str, settings: Mapping[str, str]) -> None:
        configs = [AlterableConfig(name=k.replace("_", "."), value=v) for k, v in settings.items()]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        async with connected(self.bootstrap) as client:
            request = IncrementalAlterConfigsRequest(resources=[resource])
            (result,) = (await client.call(request, IncrementalAlterConfigsResponse)).responses
        assert result.error_code == 0, result.error_message

    # -- requests --------------------------------------------------------------------------------------------

    def produce_request(
        self,
        batches: Mapping[tuple[str, int], bytes | bytearray | None],
        *,
        acks: int = -1,
        timeout_ms: int = 5000,
        transactional_id: str | None = None,
    ) -> ProduceRequest:
        """A request with names and ids of the topics, for any version."""
        return ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            transactional_id=transactional_id,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=self._id_or_unknown(topic),
                    partition_data=[PartitionProduceData(index=index, records=batch)],
                )
                for (topic, index), batch in batches.items()
            ],
        )

    async def produce(
        self,
        client: RawClient,
        batch: bytes | bytearray | None,
        topic: str = "t",
        index: int = 0,
        *,
        version: int = 9,
        **settings: Any,
    ) -> PartitionProduceResponse:
        request = self.produce_request({(topic, index): batch}, **settings)
        response = await client.call(request, ProduceResponse, version)
        return response.responses[0].partition_responses[0]

    def fetch_request(
        self, partitions: Sequence[tuple[str, FetchPartition]], *, max_wait_ms: int = 0, **settings: Any
    ) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            topics=[
                FetchTopic(topic=topic, topic_id=self._id_or_unknown(topic), partitions=[partition])
                for topic, partition in partitions
            ],
            **settings,
        )

    async def fetch(
        self,
        client: RawClient,
        offset: int = 0,
        topic: str = "t",
        index: int = 0,
        *,
        version: int = 12,
        max_bytes: int = 1 << 20,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        **settings: Any,
    ) -> PartitionData:
        partition = FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        request = self.fetch_request([(topic, partition)], **settings)
        response = await client.call(request, FetchResponse, version)
        assert response.error_code == 0
        return response.responses[0].partitions[0]

    def _id_or_unknown(self, topic: str) -> Uuid:
        known = self.node.metadata.image.topics.by_name.get(topic)
        return known.id if known is not None else b"no topic has me."


@contextlib.asynccontextmanager
async def live_node(
    data_dir: Path | Sequence[Path], properties: Mapping[str, str] | None = None
) -> AsyncIterator[LiveNode]:
    """Start a node on the data in the directory; stop it cleanly."""
    directories = [data_dir] if isinstance(data_dir, Path) else list(data_dir)
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
    overrides = {"log.dirs": ",".join(map(str, directories)), **(properties or {})}
    config = BrokerConfig.from_properties(single_node_properties(directories[0], overrides=overrides))
    format_single_node(config)
    node = Node(config)
    await node.start()
    try:
        yield LiveNode(node)
    finally:
        await node.stop()


class HeldFile(LocalFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: HeldDisk, path: str, fd: int) -> None:
        super().__init__(disk.directory, path, fd)
        self._disk = disk

    def sync(self) -> None:
        self._disk.before_sync(self.path)
        super().sync()


class HeldDisk(LocalDisk):
    """A disk whose syncs of record files block, or fail, as the test decides.

    ``free`` releases them; ``failure`` makes them fail. ``syncs`` lists the files that were synced.
    """

    __slots__ = ("failure", "free", "started", "syncs")

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.free = threading.Event()
        self.free.set()
        self.started = threading.Event()
        """Set when a sync begins (the test clears it)."""
        self.failure: OSError | None = None
        self.syncs: list[str] = []

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        file = super().open(path, create=create)
        if not path.endswith(".log") or "__cluster_metadata" in path:
            return file
        fd, file._fd = file.fileno(), -1
        return HeldFile(self, path, fd)

    def before_sync(self, path: str) -> None:
        self.started.set()
        assert self.free.wait(20), "the test never released this sync"
        self.syncs.append(path)
        if self.failure is not None:
            raise DiskError(self.directory, path, "sync", self.failure)


@pytest.fixture
def held_disks(monkeypatch: pytest.MonkeyPatch) -> dict[str, HeldDisk]:
    """Use disks whose syncs can be blocked, by directory, for the nodes of this test."""
    disks: dict[str, HeldDisk] = {}

    def make(directory: str) -> HeldDisk:
        disks[directory] = HeldDisk(directory)
        return disks[directory]

    monkeypatch.setattr(log_manager, "LocalDisk", make)
    return disks
