"""The replica fetcher: epochs, truncation and syncs between its fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

from ruslo.broker.partitions.fetcher import FetcherSettings, ReplicaFetcher
from ruslo.broker.partitions.leader_connection import Address
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.config.log_config import LogConfig
from ruslo.model.clock import Clock, SystemClock
from ruslo.model.errors import ErrorCode, StorageError
from ruslo.net.channel import ChannelSettings
from ruslo.protocol.message import Message
from ruslo.protocol.messages.fetch_request import FetchRequest
from ruslo.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ruslo.storage.log import Log
from tests.support.brokers.live_node import batch_of, live_node, until
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker
from tests.support.clients.raw_client import connected
from tests.support.machines.controller_bench import numbered_uuid
from tests.unit.broker.partitions.bench import on_bench
from tests.unit.storage.workbench import run_jobs

TOPIC_ID = numbered_uuid(7)


class FakePartition:
    """The attributes of a partition that the fetcher uses, with a real log."""

    def __init__(self, partition: Partition) -> None:
        self.topic, self.topic_id, self.index = "t", TOPIC_ID, 0
        self.leader_epoch = 1
        self.log = partition.log
        self.gone = False
        self.follower = self

    def sync_before_fetch(self, fetch: Callable[[], None]) -> bool:
        return False


def raise_error(error: StorageError) -> None:
    raise error


def new_fetcher(
    clock: Clock,
    address: Address,
    max_wait_ms: int = 500,
    on_truncated: Callable[[Sequence[Log]], None] = lambda _: None,
) -> ReplicaFetcher:
    settings = FetcherSettings(
        node_id=2,
        broker_epoch=lambda: 1,
        clock=clock,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        max_partition_bytes=1 << 20,
        max_backoff_ms=1000,
        connection=ChannelSettings(),
        quota=ReplicationQuota(lambda: 1 << 40, clock),
        storage_failed=raise_error,
        on_truncated=on_truncated,
    )
    return ReplicaFetcher(1, lambda _: address, settings)


def response_with(error: ErrorCode) -> FetchResponse:
    partition = PartitionData(partition_index=0, error_code=error, records=b"")
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])])


def leader_that(fetched: Callable[[FetchRequest], Awaitable[Message]]) -> ScriptedBroker:
    """A leader that serves Fetch requests only."""

    def script(received: ReceivedRequest) -> Awaitable[Message]:
        if not isinstance(received.message, FetchRequest):
            raise KeyError
        return fetched(received.message)

    return ScriptedBroker(script)


async def test_error_for_the_previous_epoch_does_not_stop_the_current_one(tmp_path: Path) -> None:
    fetched_epochs: list[int] = []
    first_received, next_received, respond = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fetched(request: FetchRequest) -> Message:
        (topic,) = request.topics
        fetched_epochs.append(topic.partitions[0].current_leader_epoch)
        if len(fetched_epochs) > 1:
            next_received.set()
            await asyncio.Event().wait()
        first_received.set()
        await respond.wait()
        return response_with(ErrorCode.FENCED_LEADER_EPOCH)

    async with live_node(tmp_path) as node, leader_that(fetched) as leader:
        await node.create("t")
        partition = FakePartition(node.partition("t"))
        fetcher = new_fetcher(SystemClock(), Address("127.0.0.1", leader.port))
        fetcher.follow(cast(Partition, partition))
        await first_received.wait()
        # Leader and follower enter a new epoch before the response to the request of the old one.
        partition.leader_epoch = 2
        fetcher.follow(cast(Partition, partition))
        respond.set()
        async with asyncio.timeout(20):
            await next_received.wait()
        assert fetched_epochs == [1, 2]
        await fetcher.stop()


async def test_the_recovery_point_of_a_truncated_log_is_lowered_before_the_next_fetch(
    tmp_path: Path,
) -> None:
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    received: list[tuple[int, bytes]] = []
    next_received = asyncio.Event()

    async def fetched(request: FetchRequest) -> Message:
        received.append((request.topics[0].partitions[0].fetch_offset, checkpoint.read_bytes()))
        if len(received) > 1:
            next_received.set()
            await asyncio.Event().wait()
        response = response_with(ErrorCode.NONE)
        response.responses[0].partitions[0].diverging_epoch = EpochEndOffset(epoch=0, end_offset=1)
        return response

    async with (
        live_node(tmp_path) as node,
        connected(node.bootstrap) as client,
        leader_that(fetched) as leader,
    ):
        await node.create("t")
        for value in (b"a", b"b", b"c"):
            assert (await node.produce(client, batch_of(value))).error_code == 0
        partition = FakePartition(node.partition("t"))
        partition.log.flush(0)
        run_jobs(node.node.logs, node.node.logs.recovery_point_jobs())
        fetcher = new_fetcher(
            SystemClock(), Address("127.0.0.1", leader.port), on_truncated=node.node.logs.checkpoint_truncated
        )
        fetcher.follow(cast(Partition, partition))
        async with asyncio.timeout(20):
            await next_received.wait()
        assert received == [(3, b"0\n1\nt 0 3\n"), (1, b"0\n1\nt 0 1\n")]
        await fetcher.stop()


async def test_the_next_request_waits_until_the_records_are_synced(tmp_path: Path) -> None:
    """The leader would delay a request without the partition, and with it the ack."""

    class Syncing(FakePartition):
        def __init__(self, partition: Partition) -> None:
            super().__init__(partition)
            self.has_unsynced = False
            self.fetch: Callable[[], None] | None = None

        def on_leader_offsets(self, high_watermark: int, log_start_offset: int, size: int) -> None:
            self.has_unsynced = True

        def sync_before_fetch(self, fetch: Callable[[], None]) -> bool:
            if self.has_unsynced:
                self.fetch = fetch
            return self.has_unsynced

    received: list[int] = []
    next_received = asyncio.Event()

    async def fetched(request: FetchRequest) -> Message:
        received.append(sum(len(topic.partitions) for topic in request.topics))
        if len(received) > 1:
            next_received.set()
            await asyncio.Event().wait()
        return response_with(ErrorCode.NONE)

    async with live_node(tmp_path) as node, leader_that(fetched) as leader:
        await node.create("t")
        partition, other = Syncing(node.partition("t")), FakePartition(node.partition("t"))
        other.index = 1
        fetcher = new_fetcher(SystemClock(), Address("127.0.0.1", leader.port), max_wait_ms=60_000)
        for each in (partition, other):
            fetcher.follow(cast(Partition, each))
        await until(lambda: partition.fetch is not None)
        await asyncio.sleep(0.05)
        assert received == [2]
        assert partition.fetch is not None
        partition.has_unsynced = False
        partition.fetch()
        async with asyncio.timeout(20):
            await next_received.wait()
        assert received == [2, 2], "without a session both are listed again"
        await fetcher.stop()


async def test_a_new_epoch_does_not_acknowledge_records_before_they_are_synced(tmp_path: Path) -> None:
    """The fetch offset of the first request acknowledges the records of the previous leader, whose sync may
    still be running.
    """
    async with on_bench(tmp_path) as bench:
        received: list[int] = []

        async def fetched(request: FetchRequest) -> Message:
            received.append(request.topics[0].partitions[0].fetch_offset)
            return await asyncio.Future()

        async with leader_that(fetched) as leader:
            partition = bench.partition(leads=False, config=LogConfig(flush_messages=1))
            partition.become_follower(2, 1)
            partition.follower.append(memoryview(batch_of(b"a", leader_epoch=1)), 1, 0)
            bench.disk.free.clear()
            bench.disk.started.clear()
            partition.become_follower(3, 2)
            fetcher = new_fetcher(SystemClock(), Address("127.0.0.1", leader.port))
            fetcher.follow(partition)
            await asyncio.to_thread(bench.disk.started.wait, 10)
            await asyncio.sleep(0.05)
            assert received == []
            bench.disk.free.set()
            await until(lambda: received == [1])
            assert partition.log.recovery_point == 1
            await fetcher.stop()
