"""Connections over slow lines, with one direction blocked, and to processes that die."""

from __future__ import annotations

import asyncio

import pytest

from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.network import SimNetwork
from ruslo.testing.simulation.nodes.process_loop import ProcessClock, ProcessLoop

PORT = 9092


class Peer(asyncio.Protocol):
    """A protocol that records what it receives; a server responds in upper case."""

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
        self.local, self.remote = Peer(serves=False), Peer(serves=True)
        self.problem: BaseException | None = None
        self.server.create_task(self._serve())
        self.clock.run_for(1)

    def _process(self, host: str) -> ProcessLoop:
        return ProcessLoop(self.network, host, ProcessClock(self.clock), lambda: None)

    async def _serve(self) -> None:
        await (await self.server.create_server(lambda: self.remote, "server", PORT)).start_serving()

    def connect(self) -> None:
        async def connect() -> None:
            try:
                await self.client.create_connection(lambda: self.local, "server", PORT)
            except OSError as error:
                self.problem = error

        self.client.create_task(connect())
        self.clock.run_for(50)

    def send(self, data: bytes) -> None:
        assert self.local.transport is not None
        self.local.transport.write(data)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_bytes_arrive_in_order(bench: Bench) -> None:
    bench.connect()
    bench.network.faults.slow, bench.network.faults.slow_ms = 0.5, 300
    for byte in b"abcdefgh":
        bench.send(bytes([byte]))
    bench.clock.run_for(1_000)
    assert bench.remote.received == b"abcdefgh"
    assert bench.local.received == b"ABCDEFGH"


def test_partition_of_one_direction_delays_its_bytes(bench: Bench) -> None:
    bench.connect()
    bench.network.block("server", "client")
    bench.send(b"a")
    bench.clock.run_for(5_000)
    assert (bench.remote.received, bench.local.received) == (b"a", b"")
    bench.network.heal()
    bench.clock.run_for(1_000)
    assert bench.local.received == b"A"


def test_no_connection_over_a_partitioned_line(bench: Bench) -> None:
    bench.network.isolate("server")
    bench.connect()
    assert bench.local.transport is None
    assert bench.problem is None
    bench.network.heal()
    bench.clock.run_for(2_000)
    assert bench.local.transport is not None


def test_dead_process_resets_its_connections_and_refuses_new_ones(bench: Bench) -> None:
    bench.connect()
    bench.server.kill()
    bench.network.process_died(bench.server)
    bench.clock.run_for(50)
    assert isinstance(bench.local.lost[0], ConnectionResetError)
    bench.connect()
    assert isinstance(bench.problem, ConnectionRefusedError)


def test_host_without_power_is_silent_until_it_returns(bench: Bench) -> None:
    bench.connect()
    bench.server.kill()
    bench.network.host_died(bench.server)
    bench.send(b"a")
    bench.clock.run_for(5_000)
    assert bench.local.lost == []
    bench.network.host_is_back("server")
    bench.clock.run_for(50)
    assert isinstance(bench.local.lost[0], ConnectionResetError)


def test_bytes_written_before_a_close_arrive(bench: Bench) -> None:
    bench.connect()
    bench.send(b"a")
    assert bench.local.transport is not None
    bench.local.transport.close()
    bench.clock.run_for(50)
    assert bench.remote.received == b"a"
    assert bench.remote.lost == [None]
    assert bench.local.lost == [None]
