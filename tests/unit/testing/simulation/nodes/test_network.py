"""Connections over slow lines, with one direction blocked, and to processes that die."""

from __future__ import annotations

import asyncio

import pytest

from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.network import SimNetwork
from ruslo.testing.simulation.nodes.process_loop import ProcessClock, ProcessLoop

PORT = 9092


class Peer(asyncio.Protocol):
    """Keeps what comes, and answers it in capitals if it serves."""

    def __init__(self, *, serves: bool) -> None:
        self.serves = serves
        self.received = b""
        self.lost: list[Exception | None] = []
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.serves and self.transport is not None:
            self.transport.write(data.upper())

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Bench:
    def __init__(self) -> None:
        self.clock = SimClock(3)
        self.network = SimNetwork(self.clock)
        self.client, self.server = self._process("client"), self._process("server")
        self.near, self.far = Peer(serves=False), Peer(serves=True)
        self.problem: BaseException | None = None
        self.server.create_task(self._serve())
        self.clock.run_for(1)

    def _process(self, host: str) -> ProcessLoop:
        return ProcessLoop(self.network, host, ProcessClock(self.clock), lambda: None)

    async def _serve(self) -> None:
        await (await self.server.create_server(lambda: self.far, "server", PORT)).start_serving()

    def connect(self) -> None:
        async def connect() -> None:
            try:
                await self.client.create_connection(lambda: self.near, "server", PORT)
            except OSError as error:
                self.problem = error

        self.client.create_task(connect())
        self.clock.run_for(50)

    def say(self, data: bytes) -> None:
        assert self.near.transport is not None
        self.near.transport.write(data)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_sent_arrives_in_order(bench: Bench) -> None:
    bench.connect()
    bench.network.faults.slow, bench.network.faults.slow_ms = 0.5, 300
    for letter in b"abcdefgh":
        bench.say(bytes([letter]))
    bench.clock.run_for(1_000)
    assert bench.far.received == b"abcdefgh"
    assert bench.near.received == b"ABCDEFGH"


def test_a_cut_of_one_direction_holds_back_what_it_carries(bench: Bench) -> None:
    bench.connect()
    bench.network.block("server", "client")
    bench.say(b"a")
    bench.clock.run_for(5_000)
    assert (bench.far.received, bench.near.received) == (b"a", b"")
    bench.network.heal()
    bench.clock.run_for(1_000)
    assert bench.near.received == b"A"


def test_no_connection_is_made_over_a_cut_line(bench: Bench) -> None:
    bench.network.isolate("server")
    bench.connect()
    assert bench.near.transport is None
    assert bench.problem is None
    bench.network.heal()
    bench.clock.run_for(2_000)
    assert bench.near.transport is not None


def test_a_process_that_dies_resets_its_connections_and_refuses_new_ones(bench: Bench) -> None:
    bench.connect()
    bench.server.kill()
    bench.network.process_died(bench.server)
    bench.clock.run_for(50)
    assert isinstance(bench.near.lost[0], ConnectionResetError)
    bench.connect()
    assert isinstance(bench.problem, ConnectionRefusedError)


def test_a_host_without_power_is_silent_until_it_is_back(bench: Bench) -> None:
    bench.connect()
    bench.server.kill()
    bench.network.host_died(bench.server)
    bench.say(b"a")
    bench.clock.run_for(5_000)
    assert bench.near.lost == []
    bench.network.host_is_back("server")
    bench.clock.run_for(50)
    assert isinstance(bench.near.lost[0], ConnectionResetError)


def test_a_close_lets_what_was_written_before_arrive(bench: Bench) -> None:
    bench.connect()
    bench.say(b"a")
    assert bench.near.transport is not None
    bench.near.transport.close()
    bench.clock.run_for(50)
    assert bench.far.received == b"a"
    assert bench.far.lost == [None]
    assert bench.near.lost == [None]
