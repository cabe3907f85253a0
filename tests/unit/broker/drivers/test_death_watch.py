"""Real sockets on loopback: a port that nobody listens on refuses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from ruslo.broker.drivers.death_watch import DeathWatch
from ruslo.net.connection import Connection
from tests.support.live_node import run, until


class Line:
    """The one end of a connection that the watch needs."""

    def __init__(self) -> None:
        self.lose: Callable[[], None] = lambda: None

    def when_lost(self, callback: Callable[[], None]) -> None:
        self.lose = callback


def line() -> tuple[Line, Connection]:
    made = Line()
    return made, made  # type: ignore[return-value]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_lost_connection_and_a_refused_one_mean_that_the_process_is_gone() -> None:
    async def story() -> None:
        gone: list[tuple[int, int]] = []
        port = unused_port()
        watch = DeathWatch(lambda _: ("127.0.0.1", port), lambda *who: gone.append(who))
        ours, connection = line()
        watch.heard_from(2, 77, connection)
        ours.lose()
        await until(lambda: gone == [(2, 77)])
        await watch.stop()

    run(story())


def test_whoever_still_listens_is_alive() -> None:
    async def story() -> None:
        probed = asyncio.Event()
        gone: list[tuple[int, int]] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            probed.set()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        watch = DeathWatch(lambda _: ("127.0.0.1", port), lambda *who: gone.append(who))
        ours, connection = line()
        watch.heard_from(2, 77, connection)
        ours.lose()
        await probed.wait()
        await until(lambda: not watch._probes)
        assert gone == []
        await watch.stop()
        server.close()
        await server.wait_closed()

    run(story())


def test_whoever_has_come_back_on_another_connection_is_not_suspected() -> None:
    async def story() -> None:
        gone: list[tuple[int, int]] = []
        port = unused_port()
        watch = DeathWatch(lambda _: ("127.0.0.1", port), lambda *who: gone.append(who))
        old, old_connection = line()
        _, new_connection = line()
        watch.heard_from(2, 77, old_connection)
        watch.heard_from(2, 78, new_connection)
        old.lose()
        await asyncio.sleep(0)
        assert not watch._probes
        assert gone == []
        await watch.stop()

    run(story())


def test_nothing_is_concluded_without_an_address() -> None:
    async def story() -> None:
        gone: list[tuple[int, int]] = []
        watch = DeathWatch(lambda _: None, lambda *who: gone.append(who))
        ours, connection = line()
        watch.heard_from(2, 77, connection)
        ours.lose()
        await until(lambda: not watch._probes)
        assert gone == []

    run(story())
