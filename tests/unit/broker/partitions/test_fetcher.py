"""What a fetcher makes of a leader that it cannot reach, or that answers late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from ruslo.broker.partitions.fetcher import Address, FetcherSettings, ReplicaFetcher
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.config.log_config import LogConfig
from ruslo.model.clock import Clock, SystemClock
from ruslo.model.errors import ErrorCode, StorageError
from ruslo.net.channel import ConnectionSettings
from ruslo.net.errors import BrokerUnreachable, ConnectionLost, RequestTimedOut
from ruslo.protocol.message import Message
from ruslo.protocol.messages.fetch_request import FetchRequest
from ruslo.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ruslo.storage.log import Log
from ruslo.testing.simulation.clock import SimClock
from tests.support.brokers.live_node import batch_of, live_node, until
from tests.support.brokers.scripted_broker import Asked, ScriptedBroker
from tests.support.clients.raw_client import connected
from tests.support.machines.controller_bench import numbered_uuid
from tests.support.network.ports import free_port
from tests.unit.broker.partitions.bench import Bench, on_bench

TOPIC_ID = numbered_uuid(7)


class Followed:
    """What the fetcher looks at of a partition, with a real log."""

    def __init__(self, partition: Partition) -> None:
        self.topic, self.topic_id, self.index = "t", TOPIC_ID, 0
        self.leader_epoch = 1
        self.log = partition.log
        self.gone = False

    def sync_as_follower(self, go_on: Callable[[], None]) -> bool:
        return False


def raise_it(error: StorageError) -> None:
    raise error


def new_fetcher(
    clock: Clock,
    address: Address,
    max_wait_ms: int = 500,
    logs_cut: Callable[[Sequence[Log]], None] = lambda _: None,
) -> ReplicaFetcher:
    settings = FetcherSettings(
        node_id=2,
        broker_epoch=lambda: 1,
        clock=clock,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        max_partition_bytes=1 << 20,
        max_pause_ms=1000,
        connection=ConnectionSettings(),
        quota=ReplicationQuota(lambda: 1 << 40, clock),
        storage_failed=raise_it,
        logs_cut=logs_cut,
    )
    return ReplicaFetcher(1, lambda _: address, settings)


async def test_a_leader_whose_host_refuses_is_believed_lost_for_a_while() -> None:
    clock = SimClock()
    fetcher = new_fetcher(clock, Address("127.0.0.1", free_port()))
    assert not fetcher.leader_is_lost()
    with pytest.raises(BrokerUnreachable):
        await fetcher._connected()
    assert fetcher.leader_is_lost()
    clock.run_for(9_999)
    with pytest.raises(BrokerUnreachable):
        await fetcher._connected()
    assert fetcher.leader_is_lost()
    clock.run_for(1)
    assert not fetcher.leader_is_lost(), "the controller has decided by now"
    await fetcher.stop()


async def test_a_leader_that_is_reached_again_is_not_lost_and_silence_is_no_sign() -> None:
    clock = SimClock()
    async with ScriptedBroker() as broker:
        fetcher = new_fetcher(clock, Address("127.0.0.1", broker.port))
        connection = await fetcher._connected()
        assert not fetcher.leader_is_lost()
    await connection.wait_lost()
    assert fetcher.leader_is_lost()
    async with ScriptedBroker(lambda asked: asyncio.sleep(60)) as silent:
        fetcher._address = lambda _: Address("127.0.0.1", silent.port)
        fetcher._settings = replace(
            fetcher._settings, connection=ConnectionSettings(connect_timeout_ms=1_000)
        )
        with pytest.raises(RequestTimedOut):
            await fetcher._connected()
        assert not fetcher.leader_is_lost()
        await fetcher.stop()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


async def test_a_dying_process_that_still_accepts_does_not_make_its_loss_forgotten() -> None:
    async with ScriptedBroker() as broker:
        fetcher = new_fetcher(SimClock(), Address("127.0.0.1", broker.port))
        connection = await fetcher._connected()
    await connection.wait_lost()
    dying = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with dying:
        host, port = dying.sockets[0].getsockname()
        fetcher._address = lambda _: Address(host, port)
        with pytest.raises(ConnectionLost):
            await fetcher._connected()
    assert fetcher.leader_is_lost()
    await fetcher.stop()


def refusal(error: ErrorCode) -> FetchResponse:
    partition = PartitionData(partition_index=0, error_code=error, records=b"")
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])])


async def test_a_refusal_of_the_epoch_before_says_nothing_about_the_present_one(tmp_path: Path) -> None:
    asked_epochs: list[int] = []
    first_is_here, next_is_here, let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fetched(request: FetchRequest) -> Message:
        (topic,) = request.topics
        asked_epochs.append(topic.partitions[0].current_leader_epoch)
        if len(asked_epochs) > 1:
            next_is_here.set()
            await asyncio.Event().wait()
        first_is_here.set()
        await let_go.wait()
        return refusal(ErrorCode.FENCED_LEADER_EPOCH)

    def script(asked: Asked) -> Awaitable[Message]:
        if not isinstance(asked.message, FetchRequest):
            raise KeyError
        return fetched(asked.message)

    async with live_node(tmp_path) as node, ScriptedBroker(script) as leader:
        await node.create("t")
        partition = Followed(node.partition("t"))
        fetcher = new_fetcher(SystemClock(), Address("127.0.0.1", leader.port))
        fetcher.follow(cast(Partition, partition))
        await first_is_here.wait()
        # The leader has a new epoch, and so do we, before it has answered what we asked in the old one.
        partition.leader_epoch = 2
        fetcher.follow(cast(Partition, partition))
        let_go.set()
        async with asyncio.timeout(20):
            await next_is_here.wait()
        assert asked_epochs == [1, 2]
        await fetcher.stop()


async def test_before_anything_is_fetched_to_where_a_log_was_cut_its_recovery_point_is_lowered(
    tmp_path: Path,
) -> None:
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    asked: list[tuple[int, bytes]] = []
    next_is_here = asyncio.Event()

    async def fetched(request: FetchRequest) -> Message:
        asked.append((request.topics[0].partitions[0].fetch_offset, checkpoint.read_bytes()))
        if len(asked) > 1:
            next_is_here.set()
            await asyncio.Event().wait()
        answer = refusal(ErrorCode.NONE)
        answer.responses[0].partitions[0].diverging_epoch = EpochEndOffset(epoch=0, end_offset=1)
        return answer

    def script(asked: Asked) -> Awaitable[Message]:
        if not isinstance(asked.message, FetchRequest):
            raise KeyError
        return fetched(asked.message)

    async with (
        live_node(tmp_path) as node,
        connected(node.bootstrap) as client,
        ScriptedBroker(script) as leader,
    ):
        await node.create("t")
        for value in (b"a", b"b", b"c"):
            assert (await node.produce(client, batch_of(value))).error_code == 0
        partition = Followed(node.partition("t"))
        partition.log.flush(0)
        node.node.logs.write_recovery_points()
        fetcher = new_fetcher(
            SystemClock(), Address("127.0.0.1", leader.port), logs_cut=node.node.logs.checkpoint_truncated
        )
        fetcher.follow(cast(Partition, partition))
        async with asyncio.timeout(20):
            await next_is_here.wait()
        assert asked == [(3, b"0\n1\nt 0 3\n"), (1, b"0\n1\nt 0 1\n")]
        await fetcher.stop()


async def test_the_next_request_waits_until_what_came_is_synced(tmp_path: Path) -> None:
    """Else the leader would hold back a request that does not ask for it, and with it the ack."""

    class Syncing(Followed):
        def __init__(self, partition: Partition) -> None:
            super().__init__(partition)
            self.has_unsynced = False
            self.go_on: Callable[[], None] | None = None

        def hear_from_leader(self, high_watermark: int, log_start_offset: int, size: int) -> None:
            self.has_unsynced = True

        def sync_as_follower(self, go_on: Callable[[], None]) -> bool:
            if self.has_unsynced:
                self.go_on = go_on
            return self.has_unsynced

    asked: list[int] = []
    next_is_here = asyncio.Event()

    async def fetched(request: FetchRequest) -> Message:
        asked.append(sum(len(topic.partitions) for topic in request.topics))
        if len(asked) > 1:
            next_is_here.set()
            await asyncio.Event().wait()
        return refusal(ErrorCode.NONE)

    def script(asked: Asked) -> Awaitable[Message]:
        if not isinstance(asked.message, FetchRequest):
            raise KeyError
        return fetched(asked.message)

    async with live_node(tmp_path) as node, ScriptedBroker(script) as leader:
        await node.create("t")
        partition, other = Syncing(node.partition("t")), Followed(node.partition("t"))
        other.index = 1
        fetcher = new_fetcher(SystemClock(), Address("127.0.0.1", leader.port), max_wait_ms=60_000)
        for each in (partition, other):
            fetcher.follow(cast(Partition, each))
        await until(lambda: partition.go_on is not None)
        await asyncio.sleep(0.05)
        assert asked == [2]
        assert partition.go_on is not None
        partition.has_unsynced = False
        partition.go_on()
        async with asyncio.timeout(20):
            await next_is_here.wait()
        assert asked == [2, 2], "without a session both are listed again"
        await fetcher.stop()


def test_in_a_new_epoch_too_nothing_is_acknowledged_before_it_is_synced(tmp_path: Path) -> None:
    """The offset of the first request tells the new leader what this replica has, and its sync may be under
    way: the answer that brought it came from the leader before."""

    async def story(bench: Bench) -> None:
        asked: list[int] = []

        async def fetched(request: FetchRequest) -> Message:
            asked.append(request.topics[0].partitions[0].fetch_offset)
            return await asyncio.Future()

        def script(asked: Asked) -> Awaitable[Message]:
            if not isinstance(asked.message, FetchRequest):
                raise KeyError
            return fetched(asked.message)

        async with ScriptedBroker(script) as leader:
            partition = bench.partition(leads=False, config=LogConfig(flush_messages=1))
            partition.step_down(2, 1)
            partition.append_as_follower(memoryview(batch_of(b"a", leader_epoch=1)), 0)
            bench.disk.free.clear()
            bench.disk.started.clear()
            partition.step_down(3, 2)
            fetcher = new_fetcher(SystemClock(), Address("127.0.0.1", leader.port))
            fetcher.follow(partition)
            await asyncio.to_thread(bench.disk.started.wait, 10)
            await asyncio.sleep(0.05)
            assert asked == []
            bench.disk.free.set()
            await until(lambda: asked == [1])
            assert partition.log.recovery_point == 1
            await fetcher.stop()

    on_bench(tmp_path, story)
