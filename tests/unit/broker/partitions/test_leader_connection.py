"""When a leader counts as lost: its process closed the connection, or its host refuses new ones."""

from __future__ import annotations

import asyncio

import pytest

from ruslo.broker.partitions.leader_connection import Address, LeaderConnection
from ruslo.model.clock import Clock
from ruslo.net.channel import ChannelSettings
from ruslo.net.errors import BrokerUnreachable, ConnectionLost, RequestTimedOut
from ruslo.testing.simulation.clock import SimClock
from tests.support.brokers.scripted_broker import ScriptedBroker
from tests.support.network.ports import free_port


def to_leader(clock: Clock, port: int) -> LeaderConnection:
    return LeaderConnection(1, lambda _: Address("127.0.0.1", port), ChannelSettings(), clock)


async def test_a_leader_whose_host_refuses_counts_as_lost_for_a_while() -> None:
    clock = SimClock()
    leader = to_leader(clock, free_port())
    assert not leader.leader_is_lost()
    with pytest.raises(BrokerUnreachable):
        await leader.open()
    assert leader.leader_is_lost()
    clock.run_for(9_999)
    with pytest.raises(BrokerUnreachable):
        await leader.open()
    assert leader.leader_is_lost()
    clock.run_for(1)
    assert not leader.leader_is_lost(), "the controller has had time to elect another leader"


async def test_reachable_or_silent_leader_is_not_lost() -> None:
    clock = SimClock()
    async with ScriptedBroker() as broker:
        leader = to_leader(clock, broker.port)
        connection = await leader.open()
        assert not leader.leader_is_lost()
    await connection.wait_closed()
    assert leader.leader_is_lost()
    async with ScriptedBroker(lambda received: asyncio.sleep(60)) as silent:
        leader._address = lambda _: Address("127.0.0.1", silent.port)
        leader._settings = ChannelSettings(connect_timeout_ms=1_000)
        with pytest.raises(RequestTimedOut):
            await leader.open()
        assert not leader.leader_is_lost()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


async def test_a_leader_that_accepts_a_connection_and_closes_it_is_still_lost() -> None:
    async with ScriptedBroker() as broker:
        leader = to_leader(SimClock(), broker.port)
        connection = await leader.open()
    await connection.wait_closed()
    dying = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with dying:
        host, port = dying.sockets[0].getsockname()
        leader._address = lambda _: Address(host, port)
        with pytest.raises(ConnectionLost):
            await leader.open()
    assert leader.leader_is_lost()
