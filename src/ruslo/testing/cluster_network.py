"""The network between the nodes of an embedded cluster: real sockets that can be partitioned.

The event loop of a node opens its connections here. A partition blocks one direction or both:

- Data is held back, like packets that are retransmitted until they arrive.
- The peer does not notice a closed connection, and new connections hang.

Clients of the cluster connect directly and reach every node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import uvloop

from ruslo.model.buffers import ReadBuffer


class ClusterNetwork:
    """Knows which nodes can reach each other. It can be changed from any thread."""

    def __init__(self, node_of_port: Mapping[int, int]) -> None:
        self._node_of_port = dict(node_of_port)
        self._blocked: frozenset[tuple[int, int]] = frozenset()
        self.loops: dict[int, NodeLoop] = {}

    def node_at(self, port: int) -> int | None:
        return self._node_of_port.get(port)

    def delivers(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self._blocked

    def block(self, senders: Iterable[int], receivers: Iterable[int]) -> None:
        """Stop delivering data from the senders to the receivers."""
        receiving = list(receivers)
        self._blocked |= {(sender, receiver) for sender in senders for receiver in receiving}

    def heal(self) -> None:
        """Deliver everything again, including data that was held back."""
        self._blocked = frozenset()
        for loop in list(self.loops.values()):
            loop.call_soon_threadsafe(loop.network_changed)


class NodeLoop(uvloop.Loop):
    """The event loop of one node. Its connections to other nodes are links that the network can block."""

    def __init__(self, node_id: int, network: ClusterNetwork) -> None:
        super().__init__()
        self.node_id = node_id
        self.network = network
        self.links: set[Link] = set()
        self._changed = asyncio.Event()
        self.killed = False
        network.loops[node_id] = self

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *args: Any, **options: Any
    ) -> tuple[Any, Any]:
        port = args[1] if len(args) > 1 else options.get("port")
        peer = None if port is None else self.network.node_at(port)
        if peer is None or peer == self.node_id:
            return await super().create_connection(protocol_factory, *args, **options)
        while not (self.network.delivers(self.node_id, peer) and self.network.delivers(peer, self.node_id)):
            self._changed.clear()
            await self._changed.wait()
        if self.killed:
            raise OSError("this node has been killed")
        inner = protocol_factory()
        transport, link = await super().create_connection(lambda: Link(self, peer, inner), *args, **options)
        return LinkTransport(cast(asyncio.Transport, transport), link), inner

    def network_changed(self) -> None:
        """Runs in the thread of this loop."""
        self._changed.set()
        for link in list(self.links):
            link.release()

    def drop_connections(self) -> None:
        """Abort all connections to other nodes, and allow no new ones: the node was killed."""
        self.killed = True
        self.network.loops.pop(self.node_id, None)
        for link in list(self.links):
            link.abort()

    def close(self) -> None:
        self.network.loops.pop(self.node_id, None)
        super().close()


class Link(asyncio.Protocol):
    """A connection to another node: sits between the socket and the protocol that uses it."""

    def __init__(self, loop: NodeLoop, peer: int, inner: asyncio.BaseProtocol) -> None:
        self._loop = loop
        self._peer = peer
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._outgoing: deque[bytes] = deque()
        self._incoming: deque[bytes] = deque()
        self._closed = False
        self._ended: list[Exception | None] = []
        """The reason of ``connection_lost``, while it is held back."""

    # -- from the socket -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop.links.add(self)
        if self._loop.killed:
            # The connection was established in the moment of the kill.
            self._transport.abort()
        self._inner.connection_made(LinkTransport(self._transport, self))

    def data_received(self, data: bytes) -> None:
        if self._incoming or not self._receives:
            self._incoming.append(data)
        else:
            _feed(self._inner, data)

    def eof_received(self) -> None:
        """The transport closes by itself, and says so in ``connection_lost``."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._receives or self._closed:
            self._end(exc)
        else:
            self._ended.append(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # -- from the protocol -----------------------------------------------------------------------------------

    def write(self, data: ReadBuffer) -> None:
        if self._outgoing or not self._sends:
            self._outgoing.append(bytes(data))
        elif self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self.discard()

    def discard(self) -> None:
        """Drop all data that is held back: the protocol closed the connection."""
        self._closed = True
        self._outgoing.clear()
        self._incoming.clear()
        self._report_held_back_end()

    # -- from the network ------------------------------------------------------------------------------------

    def release(self) -> None:
        if self._sends and self._transport is not None:
            while self._outgoing:
                self._transport.write(self._outgoing.popleft())
        if self._receives:
            while self._incoming:
                _feed(self._inner, self._incoming.popleft())
            self._report_held_back_end()

    @property
    def _sends(self) -> bool:
        return self._loop.network.delivers(self._loop.node_id, self._peer)

    @property
    def _receives(self) -> bool:
        return self._loop.network.delivers(self._peer, self._loop.node_id)

    def _report_held_back_end(self) -> None:
        if self._ended:
            self._end(self._ended.pop())

    def _end(self, exc: Exception | None) -> None:
        self._loop.links.discard(self)
        self._inner.connection_lost(exc)


class LinkTransport(asyncio.Transport):
    """The transport of a link, as the protocol sees it."""

    def __init__(self, transport: asyncio.Transport, link: Link) -> None:
        super().__init__()
        self._transport = transport
        self._link = link

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._link.write(data)

    def close(self) -> None:
        self._transport.close()
        self._link.discard()

    def abort(self) -> None:
        self._transport.abort()
        self._link.discard()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


def _feed(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    if not isinstance(protocol, asyncio.BufferedProtocol):
        cast(asyncio.Protocol, protocol).data_received(data)
        return
    rest = memoryview(data)
    while rest:
        target = memoryview(cast(bytearray, protocol.get_buffer(len(rest))))
        size = min(len(target), len(rest))
        target[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]
