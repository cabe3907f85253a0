"""What a fetcher makes of a leader that it cannot reach; the rest is shown with whole nodes."""

from __future__ import annotations

import asyncio

import pytest

from ruslo.broker.partitions.fetcher import Address, FetcherSettings, ReplicaFetcher
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.client.connection import ConnectionSettings
from ruslo.client.errors import BrokerUnreachable, RequestTimedOut
from ruslo.model.errors import StorageError
from ruslo.testing.simulation.clock import SimClock
from tests.support.scripted_broker import ScriptedBroker
from tests.support.wire import free_port


def raise_it(error: StorageError) -> None:
    raise error


def new_fetcher(clock: SimClock, address: Address) -> ReplicaFetcher:
    settings = FetcherSettings(
        node_id=2,
        cluster_id="cluster",
        broker_epoch=lambda: 1,
        clock=clock,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        max_partition_bytes=1 << 20,
        max_pause_ms=1000,
        connection=ConnectionSettings(connect_timeout_ms=50),
        quota=ReplicationQuota(lambda: 1 << 40, clock),
        storage_failed=raise_it,
    )
    return ReplicaFetcher(1, lambda _: address, settings)


def test_a_leader_whose_host_refuses_is_believed_lost_for_a_while() -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_a_leader_that_is_reached_again_is_not_lost_and_silence_is_no_sign() -> None:
    async def story() -> None:
        clock = SimClock()
        async with ScriptedBroker() as broker:
            fetcher = new_fetcher(clock, Address("127.0.0.1", broker.port))
            connection = await fetcher._connected()
            assert not fetcher.leader_is_lost()
        await connection.wait_lost()
        assert fetcher.leader_is_lost()
        async with ScriptedBroker(lambda asked: asyncio.sleep(60)) as silent:
            fetcher._address = lambda _: Address("127.0.0.1", silent.port)
            with pytest.raises(RequestTimedOut):
                await fetcher._connected()
            assert not fetcher.leader_is_lost()
            await fetcher.stop()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    asyncio.run(story())
