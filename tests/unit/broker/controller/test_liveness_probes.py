"""Real sockets on loopback: an unused port refuses connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ruslo.broker.controller.liveness_probes import LivenessProbes
from ruslo.net.connection import Connection
from tests.support.brokers.live_node import until


class FakeConnection:
    """The part of a connection that the probes use."""

    def __init__(self) -> None:
        self.lose: Callable[[], None] = lambda: None

    def when_lost(self, callback: Callable[[], None]) -> None:
        self.lose = callback


def connection_pair() -> tuple[FakeConnection, Connection]:
    fake = FakeConnection()
    return fake, fake  # type: ignore[return-value]


SESSION_MS = 60_000
"""This session timeout is longer than any of these tests."""


class Listener:
    """A broker that accepts connections. ``kill`` closes the listener, then the accepted connections."""

    def __init__(self) -> None:
        self.accepted: list[asyncio.StreamWriter] = []
        self.readers: list[asyncio.StreamReader] = []

    async def start(self) -> tuple[str, int]:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.readers.append(reader)
        self.accepted.append(writer)

    def kill(self) -> None:
        self._server.close()
        for writer in self.accepted:
            writer.close()

    async def stop(self) -> None:
        self.kill()
        await self._server.wait_closed()


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


DeadBrokers = list[tuple[int, int]]


@asynccontextmanager
async def probing(
    address: tuple[str, int] | None, session_ms: int = SESSION_MS
) -> AsyncIterator[tuple[LivenessProbes, DeadBrokers]]:
    """Probes of a broker at ``address``, and the list of dead brokers that they report."""
    dead: DeadBrokers = []
    probes = LivenessProbes(
        lambda _: address, lambda *broker: dead.append(broker), session_timeout_ms=session_ms
    )
    yield probes, dead
    await probes.stop()


@asynccontextmanager
async def probed_listener(
    session_ms: int = SESSION_MS,
) -> AsyncIterator[tuple[Listener, LivenessProbes, DeadBrokers]]:
    node = Listener()
    async with probing(await node.start(), session_ms) as (probes, dead):
        yield node, probes, dead
    await node.stop()


async def test_lost_connection_and_refused_probe_mean_that_the_process_has_ended() -> None:
    async with probing(("127.0.0.1", unused_port())) as (probes, dead):
        ours, connection = connection_pair()
        probes.heartbeat_received(2, 77, connection)
        ours.lose()
        await until(lambda: dead == [(2, 77)])


@pytest.mark.stdlib_loop  # uvloop does not resolve names through a method of the loop
async def test_name_with_several_addresses_is_refused_when_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    port = unused_port()
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def both(host: str, *args: Any, **options: Any) -> list[Any]:
        return [
            each
            for address in ("127.0.0.2", "127.0.0.3")
            for each in await resolve(address, *args, **options)
        ]

    monkeypatch.setattr(loop, "getaddrinfo", both)
    async with probing(("broker.test", port)) as (probes, dead):
        probes.probe(2, 77)
        async with asyncio.timeout(30):
            await until(lambda: dead == [(2, 77)])


async def test_listening_broker_is_alive_until_the_probe_connection_ends() -> None:
    async with probed_listener() as (node, probes, dead):
        ours, connection = connection_pair()
        probes.heartbeat_received(2, 77, connection)
        ours.lose()
        await until(lambda: len(node.accepted) == 1)
        assert dead == []
        node.kill()
        await until(lambda: dead == [(2, 77)])


async def test_broker_that_dies_before_its_first_heartbeat_to_a_new_controller_is_detected_at_once() -> None:
    async with probed_listener() as (node, probes, dead):
        probes.probe(2, 77)
        await until(lambda: len(node.accepted) == 1)
        node.kill()
        await until(lambda: dead == [(2, 77)])


async def test_listening_broker_that_closes_the_connection_is_probed_again() -> None:
    async with probed_listener() as (node, probes, dead):
        probes.probe(2, 77)
        await until(lambda: len(node.accepted) == 1)
        node.accepted[0].close()
        await until(lambda: len(node.accepted) == 2)
        assert dead == []


async def test_heartbeat_stops_the_probes() -> None:
    async with probed_listener() as (node, probes, dead):
        probes.probe(2, 77)
        await until(lambda: len(node.accepted) == 1)
        _, connection = connection_pair()
        probes.heartbeat_received(2, 77, connection)
        assert not probes._probes
        await until(node.readers[0].at_eof)
        assert dead == []


async def test_silent_broker_is_left_to_the_session_timeout() -> None:
    async with probed_listener(50) as (_, probes, dead):
        probes.probe(2, 77)
        await until(lambda: not probes._probes)
        assert dead == []


async def test_broker_with_a_new_connection_is_not_probed() -> None:
    async with probing(("127.0.0.1", unused_port())) as (probes, dead):
        old, old_connection = connection_pair()
        _, new_connection = connection_pair()
        probes.heartbeat_received(2, 77, old_connection)
        probes.heartbeat_received(2, 78, new_connection)
        old.lose()
        await asyncio.sleep(0)
        assert not probes._probes
        assert dead == []


async def test_no_probe_without_an_address() -> None:
    async with probing(None) as (probes, dead):
        ours, connection = connection_pair()
        probes.heartbeat_received(2, 77, connection)
        ours.lose()
        await until(lambda: not probes._probes)
        assert dead == []
