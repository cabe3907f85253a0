"""The network between the nodes of an embedded cluster: real sockets that can be cut, one way or both.

A node's event loop dials through here. What goes over a connection that is cut is held back, as packets that
are sent again and again until they arrive; nobody is told that the other end has gone; new connections hang.
Clients of the cluster dial by themselves and reach every node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import uvloop

from ruslo.model.buffers import ReadBuffer


class ClusterNetwork:
    """Which nodes hear each other. May be changed from any thread."""

    def __init__(self, node_of_port: Mapping[int, int]) -> None:
        self._node_of_port = dict(node_of_port)
        self._cuts: frozenset[tuple[int, int]] = frozenset()
        self._loops: dict[int, NodeLoop] = {}

    def node_at(self, port: int) -> int | None:
        return self._node_of_port.get(port)

    def carries(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self._cuts

    def cut(self, senders: Iterable[int], receivers: Iterable[int]) -> None:
        """What the ones say does not reach the others any more."""
        receiving = list(receivers)
        self._cuts |= {(sender, receiver) for sender in senders for receiver in receiving}

    def heal(self) -> None:
        """What was held back arrives."""
        self._cuts = frozenset()
        for loop in list(self._loops.values()):
            loop.call_soon_threadsafe(loop.network_changed)

    def attach(self, loop: NodeLoop) -> None:
        self._loops[loop.node_id] = loop

    def detach(self, loop: NodeLoop) -> None:
        self._loops.pop(loop.node_id, None)


class NodeLoop(uvloop.Loop):
    """The event loop of one node: its connections to other nodes are links that the network may cut."""

    def __init__(self, node_id: int, network: ClusterNetwork) -> None:
        super().__init__()
        self.node_id = node_id
        self.network = network
        self._links: set[Link] = set()
        self._changed = asyncio.Event()
        self._vanished = False
        network.attach(self)

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *args: Any, **options: Any
    ) -> tuple[Any, Any]:
        port = args[1] if len(args) > 1 else options.get("port")
        peer = None if port is None else self.network.node_at(port)
        if peer is None or peer == self.node_id:
            return await super().create_connection(protocol_factory, *args, **options)
        while not (self.network.carries(self.node_id, peer) and self.network.carries(peer, self.node_id)):
            self._changed.clear()
            await self._changed.wait()
        if self._vanished:
            raise OSError("this node has been killed")
        inner = protocol_factory()
        transport, link = await super().create_connection(lambda: Link(self, peer, inner), *args, **options)
        return LinkTransport(cast(asyncio.Transport, transport), link), inner

    def network_changed(self) -> None:
        """In this loop's own thread."""
        self._changed.set()
        for link in list(self._links):
            link.release()

    def vanish(self) -> None:
        """Every connection to another node ends at once, and there will be no other."""
        self._vanished = True
        self.network.detach(self)
        for link in list(self._links):
            link.abort()

    def close(self) -> None:
        self.network.detach(self)
        super().close()

    def link_opened(self, link: Link) -> None:
        self._links.add(link)

    def link_closed(self, link: Link) -> None:
        self._links.discard(link)


class Link(asyncio.Protocol):
    """A connection to another node, between the socket and the protocol that believes to own it."""

    def __init__(self, loop: NodeLoop, peer: int, inner: asyncio.BaseProtocol) -> None:
        self._loop = loop
        self._peer = peer
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._outgoing: deque[bytes] = deque()
        self._incoming: deque[bytes] = deque()
        self._given_up = False
        self._ended: list[Exception | None] = []
        """How the connection ended, if nobody could be told yet."""

    # -- from the socket -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop.link_opened(self)
        self._inner.connection_made(LinkTransport(self._transport, self))

    def data_received(self, data: bytes) -> None:
        if self._incoming or not self._hears:
            self._incoming.append(data)
        else:
            _feed(self._inner, data)

    def eof_received(self) -> None:
        """The transport closes by itself, and says so in ``connection_lost``."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._hears or self._given_up:
            self._end(exc)
        else:
            self._ended.append(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # -- from the owner --------------------------------------------------------------------------------------

    def write(self, data: ReadBuffer) -> None:
        if self._outgoing or not self._is_heard:
            self._outgoing.append(bytes(data))
        elif self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self.give_up()

    def give_up(self) -> None:
        """Its owner wants no more of it, and is told of the end: nothing is held back any longer."""
        self._given_up = True
        self._outgoing.clear()
        self._incoming.clear()
        self._ended_unheard()

    # -- from the network ------------------------------------------------------------------------------------

    def release(self) -> None:
        if self._is_heard and self._transport is not None:
            while self._outgoing:
                self._transport.write(self._outgoing.popleft())
        if self._hears:
            while self._incoming:
                _feed(self._inner, self._incoming.popleft())
            self._ended_unheard()

    @property
    def _is_heard(self) -> bool:
        return self._loop.network.carries(self._loop.node_id, self._peer)

    @property
    def _hears(self) -> bool:
        return self._loop.network.carries(self._peer, self._loop.node_id)

    def _ended_unheard(self) -> None:
        if self._ended:
            self._end(self._ended.pop())

    def _end(self, exc: Exception | None) -> None:
        self._loop.link_closed(self)
        self._inner.connection_lost(exc)


class LinkTransport(asyncio.Transport):
    """What the owner of a link writes to."""

    def __init__(self, transport: asyncio.Transport, link: Link) -> None:
        super().__init__()
        self._transport = transport
        self._link = link

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._link.write(data)

    def close(self) -> None:
        self._transport.close()
        self._link.give_up()

    def abort(self) -> None:
        self._transport.abort()
        self._link.give_up()

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
        room = memoryview(cast(bytearray, protocol.get_buffer(len(rest))))
        taken = min(len(room), len(rest))
        room[:taken] = rest[:taken]
        protocol.buffer_updated(taken)
        rest = rest[taken:]
