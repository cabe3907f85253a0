"""One end of a simulated connection, and the one-way pipe to the other."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ruslo.model.buffers import ReadBuffer

if TYPE_CHECKING:
    from ruslo.testing.simulation.nodes.network import SimNetwork
    from ruslo.testing.simulation.nodes.process_loop import ProcessLoop

MAX_RETRANSMIT_DELAY_MS = 300
"""The maximum delay of a retransmission after the network heals: TCP retries at growing intervals."""


class _Fin:
    """The end of the stream."""


class _Reset:
    """The connection was reset."""


FIN, RESET = _Fin(), _Reset()
Packet = bytes | _Fin | _Reset


class Pipe:
    """The ordered stream from one transport to its peer."""

    __slots__ = ("_held", "_last_ms", "_network", "_source", "_target")

    def __init__(self, network: SimNetwork, source: SimTransport, target: SimTransport) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._last_ms = 0
        self._held: deque[Packet] = deque()

    def send(self, packet: Packet) -> None:
        network = self._network
        source, target = self._source.host, self._target.host
        if self._held or network.is_blocked(source, target):
            self._hold(packet)
            return
        clock, reset = network.clock, network.faults.reset
        if reset and isinstance(packet, bytes) and clock.random.random() < reset:
            arrives = clock.random.random() < 0.5
            self._source.reset_soon()
            if not arrives:
                packet = RESET
        self._post(packet, network.delay_ms(source, target))

    def _post(self, packet: Packet, delay_ms: int) -> None:
        clock = self._network.clock
        self._last_ms = max(self._last_ms, clock.monotonic_ms() + delay_ms)
        clock.call_at(self._last_ms, lambda: self._arrive(packet))

    def _arrive(self, packet: Packet) -> None:
        network = self._network
        source, target = self._source.host, self._target.host
        if target in network.down:
            return
        if self._held or network.is_blocked(source, target):
            self._hold(packet)
            return
        self._target.receive(packet)

    def _hold(self, packet: Packet) -> None:
        self._held.append(packet)
        self._network.holding[self] = None

    def drop_held(self) -> None:
        """Held packets are not retransmitted."""
        self._held.clear()

    def send_held(self) -> None:
        held, self._held = self._held, deque()
        if held:
            delay_ms = self._network.clock.random.randint(0, MAX_RETRANSMIT_DELAY_MS)
            for packet in held:
                self._post(packet, delay_ms)


class SimTransport(asyncio.Transport):
    outgoing: Pipe

    def __init__(self, network: SimNetwork, process: ProcessLoop, peer: tuple[str, int]) -> None:
        super().__init__({"peername": peer})
        self._network = network
        self.process = process
        self._protocol: asyncio.BaseProtocol | None = None
        self._closing = False
        self._gone = False
        self._reading = True
        self._unread: deque[Packet] = deque()

    @property
    def host(self) -> str:
        return self.process.host

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_unread()

    # -- receiving -------------------------------------------------------------------------------------------

    def receive(self, packet: Packet) -> None:
        """A packet arrived; it waits in the kernel until the process reads."""
        if self._gone or not self.process.alive:
            if isinstance(packet, bytes):
                self.outgoing.send(RESET)
            return
        self._unread.append(packet)
        self.process.call_soon(self._read_unread)

    def _read_unread(self) -> None:
        """A process that does not read does not see the end of the stream either."""
        while self._unread and self._reading and self._protocol is not None and not self._gone:
            packet = self._unread.popleft()
            if isinstance(packet, bytes):
                self._deliver(packet)
            elif packet is RESET:
                self._end(ConnectionResetError(104, "the peer has reset the connection"), FIN)
            elif not self._stays_open():
                self._end(None, FIN)

    def _deliver(self, data: bytes) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            rest = memoryview(data)
            while rest and self._reading and not self._gone:
                buffer = memoryview(protocol.get_buffer(len(rest)))
                size = min(len(buffer), len(rest))
                buffer[:size] = rest[:size]
                protocol.buffer_updated(size)
                rest = rest[size:]
            if rest:
                self._unread.appendleft(bytes(rest))
        else:
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)

    def _stays_open(self) -> bool:
        protocol = self._protocol
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        return bool(protocol.eof_received())

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self._unread:
            self.process.call_soon(self._read_unread)

    # -- sending ---------------------------------------------------------------------------------------------

    def write(self, data: ReadBuffer) -> None:
        if not self._closing and data:
            self.outgoing.send(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Writes are never limited."""

    # -- ending ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        if not self._closing:
            self._end(None, FIN)

    def abort(self) -> None:
        self._end(None, RESET)

    def is_closing(self) -> bool:
        return self._closing

    def reset_soon(self) -> None:
        self.process.call_soon(self._end, ConnectionResetError(104, "the connection was reset"), RESET)

    def close_by_kernel(self) -> None:
        """The process of this end is dead."""
        self._network.forget(self)
        if not self._gone:
            self._gone = self._closing = True
            self.outgoing.drop_held()
            self.outgoing.send(RESET)

    def _end(self, error: Exception | None, final_packet: Packet) -> None:
        self._closing = True
        if self._gone:
            return
        self._gone = True
        if final_packet is RESET:
            self.outgoing.drop_held()
        self.outgoing.send(final_packet)
        self.process.call_soon(self._on_lost, error)

    def _on_lost(self, error: Exception | None) -> None:
        self._network.forget(self)
        if self._protocol is not None:
            self._protocol.connection_lost(error)
