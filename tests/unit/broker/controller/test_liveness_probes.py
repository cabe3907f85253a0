"""Real sockets on loopback: an unused port refuses connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from ruslo.broker.controller.liveness_probes import LivenessProbes
from ruslo.net.connection import Connection
from tests.support.brokers.live_node import until


class Line:
    """The one end of a connection that the watch needs."""

    def __init__(self) -> None:
        self.lose: Callable[[], None] = lambda: None

    def when_lost(self, callback: Callable[[], None]) -> None:
        self.lose = callback


def line() -> tuple[Line, Connection]:
    made = Line()
    return made, made  # type: ignore[return-value]


SESSION_MS = 60_000
"""Longer than any of these tests."""


class Listener:
    """A node that accepts connections, and may be killed: its listener ends first, then what it accepted."""

    def __init__(self) -> None:
        self.accepted: list[asyncio.StreamWriter] = []
        self.callers: list[asyncio.StreamReader] = []

    async def start(self) -> tuple[str, int]:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.callers.append(reader)
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


async def test_a_lost_connection_and_a_refused_one_mean_that_the_process_is_gone() -> None:
    gone: list[tuple[int, int]] = []
    port = unused_port()
    watch = LivenessProbes(
        lambda _: ("127.0.0.1", port), lambda *who: gone.append(who), session_timeout_ms=SESSION_MS
    )
    ours, connection = line()
    watch.heartbeat_received(2, 77, connection)
    ours.lose()
    await until(lambda: gone == [(2, 77)])
    await watch.stop()


@pytest.mark.stdlib_loop  # uvloop does not look names up through a method of the loop
async def test_a_name_with_several_addresses_is_refused_when_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[tuple[int, int]] = []
    port = unused_port()
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def both(host: str, *args: Any, **options: Any) -> list[Any]:
        return [each for at in ("127.0.0.2", "127.0.0.3") for each in await resolve(at, *args, **options)]

    monkeypatch.setattr(loop, "getaddrinfo", both)
    watch = LivenessProbes(
        lambda _: ("broker.test", port), lambda *who: gone.append(who), session_timeout_ms=SESSION_MS
    )
    watch.probe(2, 77)
    async with asyncio.timeout(30):
        await until(lambda: gone == [(2, 77)])
    await watch.stop()


async def test_a_listening_broker_is_alive_until_the_probe_connection_ends() -> None:
    gone: list[tuple[int, int]] = []
    node = Listener()
    address = await node.start()
    watch = LivenessProbes(lambda _: address, lambda *who: gone.append(who), session_timeout_ms=SESSION_MS)
    ours, connection = line()
    watch.heartbeat_received(2, 77, connection)
    ours.lose()
    await until(lambda: len(node.accepted) == 1)
    assert gone == []
    node.kill()
    await until(lambda: gone == [(2, 77)])
    await watch.stop()
    await node.stop()


async def test_a_broker_that_dies_before_its_first_heartbeat_to_a_new_controller_is_missed_at_once() -> None:
    gone: list[tuple[int, int]] = []
    node = Listener()
    address = await node.start()
    watch = LivenessProbes(lambda _: address, lambda *who: gone.append(who), session_timeout_ms=SESSION_MS)
    watch.probe(2, 77)
    await until(lambda: len(node.accepted) == 1)
    node.kill()
    await until(lambda: gone == [(2, 77)])
    await watch.stop()
    await node.stop()


async def test_a_listening_broker_that_closes_the_connection_is_probed_again() -> None:
    gone: list[tuple[int, int]] = []
    node = Listener()
    address = await node.start()
    watch = LivenessProbes(lambda _: address, lambda *who: gone.append(who), session_timeout_ms=SESSION_MS)
    watch.probe(2, 77)
    await until(lambda: len(node.accepted) == 1)
    node.accepted[0].close()
    await until(lambda: len(node.accepted) == 2)
    assert gone == []
    await watch.stop()
    await node.stop()


async def test_a_heartbeat_ends_the_knocking() -> None:
    gone: list[tuple[int, int]] = []
    node = Listener()
    address = await node.start()
    watch = LivenessProbes(lambda _: address, lambda *who: gone.append(who), session_timeout_ms=SESSION_MS)
    watch.probe(2, 77)
    await until(lambda: len(node.accepted) == 1)
    _, connection = line()
    watch.heartbeat_received(2, 77, connection)
    assert not watch._probes
    await until(node.callers[0].at_eof)
    assert gone == []
    await node.stop()
    await watch.stop()


async def test_a_silent_broker_is_left_to_the_session_timeout() -> None:
    gone: list[tuple[int, int]] = []
    node = Listener()
    address = await node.start()
    watch = LivenessProbes(lambda _: address, lambda *who: gone.append(who), session_timeout_ms=50)
    watch.probe(2, 77)
    await until(lambda: not watch._probes)
    assert gone == []
    await node.stop()


async def test_a_broker_with_a_new_connection_is_not_probed() -> None:
    gone: list[tuple[int, int]] = []
    port = unused_port()
    watch = LivenessProbes(
        lambda _: ("127.0.0.1", port), lambda *who: gone.append(who), session_timeout_ms=SESSION_MS
    )
    old, old_connection = line()
    _, new_connection = line()
    watch.heartbeat_received(2, 77, old_connection)
    watch.heartbeat_received(2, 78, new_connection)
    old.lose()
    await asyncio.sleep(0)
    assert not watch._probes
    assert gone == []
    await watch.stop()


async def test_nothing_is_concluded_without_an_address() -> None:
    gone: list[tuple[int, int]] = []
    watch = LivenessProbes(lambda _: None, lambda *who: gone.append(who), session_timeout_ms=SESSION_MS)
    ours, connection = line()
    watch.heartbeat_received(2, 77, connection)
    ours.lose()
    await until(lambda: not watch._probes)
    assert gone == []
