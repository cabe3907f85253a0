"""Hosts and TCP as programs see it: streams that arrive whole and in order, late, or not at all.

What is on its way over a line that is cut is not lost but sent again once the line is whole, unless somebody
has given up by then; so cuts, also of one direction alone, look like silence. A process that dies resets its
connections, a host that dies says nothing until it is back. Nothing arrives twice: that is what TCP is for.
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
    """May be changed at any time; all zero: a good network."""

    usual_ms: int = 2
    """What is sent arrives after up to this."""
    slow: float = 0.0
    """Part of what is sent that takes up to ``slow_ms``: a packet was lost, or the line was full."""
    slow_ms: int = 400
    reset: float = 0.0
    """Part of what is sent that ends its connection, with itself delivered or not."""


class SimServer:
    """What ``create_server`` gives."""

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
        """Nothing is left open once it is closed."""


class SimNetwork:
    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.faults = NetworkFaults()
        self.slow_lines: dict[tuple[str, str], int] = {}
        """From and to, and up to how much longer everything takes there."""
        self.down: set[str] = set()
        """Hosts without power: whatever is sent to them goes nowhere."""
        self._cut: set[tuple[str, str]] = set()
        self._servers: dict[tuple[str, int], SimServer] = {}
        self.holding: dict[Pipe, None] = {}
        """With something that waits for a line to be whole."""
        self._open: dict[SimTransport, None] = {}
        self._ports = 40_000

    # -- trouble ---------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """One direction; what the other one carries still arrives."""
        self._cut.add((source, target))

    def cut_off(self, host: str) -> None:
        """Both directions, to everybody; ``host`` itself still reaches itself."""
        self._cut.update({(host, "*"), ("*", host)})

    def heal(self) -> None:
        self._cut.clear()
        self.slow_lines.clear()
        holding, self.holding = self.holding, {}
        for pipe in holding:
            pipe.send_held()

    def is_cut(self, source: str, target: str) -> bool:
        cut = self._cut
        return (
            bool(cut)
            and source != target
            and ((source, target) in cut or (source, "*") in cut or ("*", target) in cut)
        )

    def delay_ms(self, source: str, target: str) -> int:
        random, faults = self.clock.random, self.faults
        if source == target:
            return 0
        longest = faults.usual_ms
        if faults.slow and random.random() < faults.slow:
            longest = faults.slow_ms
        if self.slow_lines:
            longest += self.slow_lines.get((source, target), 0)
        return random.randint(0, longest)

    def process_died(self, process: ProcessLoop) -> None:
        """The kernel closes what it had open."""
        for server in [each for each in self._servers.values() if each.process is process]:
            self.unbind(server)
        for transport in [each for each in self._open if each.process is process]:
            transport.lost_by_kernel()

    def host_died(self, process: ProcessLoop) -> None:
        """Nobody closes anything, and nobody answers."""
        self.down.add(process.host)
        for server in [each for each in self._servers.values() if each.process is process]:
            self.unbind(server)

    def host_is_back(self, host: str) -> None:
        """It knows nothing of old connections, and says so."""
        self.down.discard(host)
        for transport in [each for each in self._open if each.host == host and not each.process.alive]:
            transport.lost_by_kernel()

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

        def knock() -> None:
            if not process.alive or arrived.done():
                return
            if host in self.down or self.is_cut(here, host) or self.is_cut(host, here):
                clock.call_later(SYN_RETRY_MS, knock)
                return
            server = self._servers.get((host, port))
            back_ms = self.delay_ms(host, here)
            clock.call_later(back_ms, lambda: process.call_soon(answer, server))

        def answer(server: SimServer | None) -> None:
            if arrived.done():
                return
            if server is None or not server.accepts or not server.process.alive:
                arrived.set_exception(ConnectionRefusedError(111, f"nobody listens at {host}:{port}"))
            else:
                arrived.set_result(server)

        clock.call_later(self.delay_ms(here, host), knock)
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
