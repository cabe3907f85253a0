"""Hosts and TCP as processes see it: streams that arrive complete and in order, late, or not at all.

- Bytes in a blocked direction are not lost but retransmitted after it is healed, unless an end has given up.
  A blocked direction therefore looks like silence.
- A process that dies resets its connections; a host that dies is silent until it is back.
- Nothing arrives twice, as with real TCP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.transport import Pipe, SimTransport

if TYPE_CHECKING:
    from ruslo.testing.simulation.nodes.process_loop import ProcessLoop

SYN_RETRY_MS = 1_000
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


@dataclass(slots=True)
class NetworkFaults:
    """The faults may be changed at any time; all zero is a good network."""

    usual_ms: int = 2
    """The usual maximum latency."""
    slow: float = 0.0
    """The fraction of packets that take up to ``slow_ms``, as after a packet loss or on a congested link."""
    slow_ms: int = 400
    reset: float = 0.0
    """The fraction of packets that reset their connection, whether they are delivered or not."""


class SimServer:
    """The result of ``create_server``."""

    def __init__(
        self, network: SimNetwork, process: ProcessLoop, factory: ProtocolFactory, port: int
    ) -> None:
        self._network = network
        self.process = process
        self.factory = factory
        self.port = port
        self.accepts = False

    @property
    def sockets(self) -> tuple[SimServer]:
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        return (self.process.host, self.port)

    async def start_serving(self) -> None:
        self.accepts = True

    def close(self) -> None:
        self.accepts = False
        self._network.unbind(self)

    async def wait_closed(self) -> None:
        """A closed server has no open connections."""


class SimNetwork:
    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.faults = NetworkFaults()
        self.slow_lines: dict[tuple[str, str], int] = {}
        """By source and target: the maximum additional latency."""
        self.down: set[str] = set()
        """Hosts without power; packets to them are lost."""
        self._blocked: set[tuple[str, str]] = set()
        self._servers: dict[tuple[str, int], SimServer] = {}
        self.holding: dict[Pipe, None] = {}
        """Pipes with packets that wait until their direction is unblocked."""
        self._open: dict[SimTransport, None] = {}
        self._ports = 40_000

    # -- faults ----------------------------------------------------------------------------------------------

    def block(self, source: str, target: str) -> None:
        """Block one direction; the other still works."""
        self._blocked.add((source, target))

    def isolate(self, host: str) -> None:
        """Block both directions to all hosts; ``host`` still reaches itself."""
        self._blocked.update({(host, "*"), ("*", host)})

    def heal(self) -> None:
        self._blocked.clear()
        self.slow_lines.clear()
        holding, self.holding = self.holding, {}
        for pipe in holding:
            pipe.send_held()

    def is_blocked(self, source: str, target: str) -> bool:
        blocked = self._blocked
        return (
            bool(blocked)
            and source != target
            and ((source, target) in blocked or (source, "*") in blocked or ("*", target) in blocked)
        )

    def delay_ms(self, source: str, target: str) -> int:
        random, faults = self.clock.random, self.faults
        if source == target:
            return 0
        max_ms = faults.usual_ms
        if faults.slow and random.random() < faults.slow:
            max_ms = faults.slow_ms
        if self.slow_lines:
            max_ms += self.slow_lines.get((source, target), 0)
        return random.randint(0, max_ms)

    def process_died(self, process: ProcessLoop) -> None:
        """The kernel closes its sockets."""
        for server in [each for each in self._servers.values() if each.process is process]:
            self.unbind(server)
        for transport in [each for each in self._open if each.process is process]:
            transport.close_by_kernel()

    def host_died(self, process: ProcessLoop) -> None:
        """Connections are not closed, and the host does not respond."""
        self.down.add(process.host)
        for server in [each for each in self._servers.values() if each.process is process]:
            self.unbind(server)

    def host_is_back(self, host: str) -> None:
        """The host resets connections that it does not know."""
        self.down.discard(host)
        for transport in [each for each in self._open if each.host == host and not each.process.alive]:
            transport.close_by_kernel()

    # -- connections -----------------------------------------------------------------------------------------

    def listen(self, process: ProcessLoop, factory: ProtocolFactory, port: int) -> SimServer:
        server = SimServer(self, process, factory, port)
        self._servers[(process.host, port)] = server
        return server

    def unbind(self, server: SimServer) -> None:
        key = (server.process.host, server.port)
        if self._servers.get(key) is server:
            del self._servers[key]

    async def connect(
        self, process: ProcessLoop, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        here, clock = process.host, self.clock
        arrived: asyncio.Future[SimServer] = process.create_future()

        def send_syn() -> None:
            if not process.alive or arrived.done():
                return
            if host in self.down or self.is_blocked(here, host) or self.is_blocked(host, here):
                clock.call_later(SYN_RETRY_MS, send_syn)
                return
            server = self._servers.get((host, port))
            back_ms = self.delay_ms(host, here)
            clock.call_later(back_ms, lambda: process.call_soon(complete, server))

        def complete(server: SimServer | None) -> None:
            if arrived.done():
                return
            if server is None or not server.accepts or not server.process.alive:
                arrived.set_exception(ConnectionRefusedError(111, f"connection refused by {host}:{port}"))
            else:
                arrived.set_result(server)

        clock.call_later(self.delay_ms(here, host), send_syn)
        server = await arrived
        self._ports += 1
        near = SimTransport(self, process, (host, port))
        far = SimTransport(self, server.process, (here, self._ports))
        near.outgoing, far.outgoing = Pipe(self, near, far), Pipe(self, far, near)
        self._open[near] = self._open[far] = None
        protocol = factory()
        near.begin(protocol)
        server.process.call_soon(far.begin, server.factory())
        return near, protocol

    def forget(self, transport: SimTransport) -> None:
        self._open.pop(transport, None)
