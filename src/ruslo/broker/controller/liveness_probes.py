"""Notices that another node's process has ended, instead of waiting for its session to run out.

A closed connection followed by "connection refused" at the node's address is evidence: the host is there and
says that nobody listens. Silence is none, because a host that is only slow or cut off is silent too; there
the session time-out decides.

The connection is the one that a node's heartbeats come over. A new controller has none for up to a heartbeat
interval, and a node whose connection was lost may be alive: whoever is knocked at and accepts has the knock's
connection held, so that its end is the next sign, until a heartbeat comes. There is no moment in which a
death would go unnoticed, and nothing to tell apart by waiting: what a dying process still accepts is reset
when it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from ruslo.net.connection import Connection
from ruslo.net.errors import is_refusal

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 2.0
_FIRST_PAUSE_S = 0.03
_LONGEST_PAUSE_S = 0.3
_REFUSALS = 2
"""In a row. A broker may be known a moment before it listens."""


class LivenessProbes:
    def __init__(
        self,
        address: Callable[[int], tuple[str, int] | None],
        on_gone: Callable[[int, int], None],
        *,
        session_timeout_ms: int,
    ) -> None:
        """``address``: where a node listens. ``on_gone``: told of node and incarnation (a broker's epoch).
        ``session_timeout_ms``: after so much silence it is decided without this watch."""
        self._address = address
        self._on_gone = on_gone
        self._session_timeout_ms = session_timeout_ms
        self._watched: dict[int, tuple[int, Connection]] = {}
        self._probes: dict[int, asyncio.Task[None]] = {}

    def heartbeat_received(self, node_id: int, incarnation: int, connection: Connection) -> None:
        """It spoke over this connection, the end of which will be a first sign."""
        if self._watched.get(node_id) != (incarnation, connection):
            self._watched[node_id] = (incarnation, connection)
            connection.when_lost(lambda: self._lost(node_id, incarnation, connection))
            self._end_probe(node_id)

    def probe(self, node_id: int, incarnation: int) -> None:
        """It should be there, but has not spoken to us yet: look whether it listens, and for how long."""
        if node_id not in self._watched:
            self._begin_probe(node_id, incarnation)

    async def stop(self) -> None:
        self._watched.clear()
        probes = list(self._probes.values())
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    def _lost(self, node_id: int, incarnation: int, connection: Connection) -> None:
        if self._watched.get(node_id) == (incarnation, connection):
            del self._watched[node_id]
            self._begin_probe(node_id, incarnation)

    def _begin_probe(self, node_id: int, incarnation: int) -> None:
        self._end_probe(node_id)
        probe = asyncio.get_running_loop().create_task(self._probe(node_id, incarnation))
        self._probes[node_id] = probe
        probe.add_done_callback(partial(self._probe_ended, node_id))

    def _end_probe(self, node_id: int) -> None:
        probe = self._probes.pop(node_id, None)
        if probe is not None:
            probe.cancel()

    def _probe_ended(self, node_id: int, probe: asyncio.Task[None]) -> None:
        if self._probes.get(node_id) is probe:
            del self._probes[node_id]

    async def _probe(self, node_id: int, incarnation: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._session_timeout_ms / 1000):
                if await self._found_gone(node_id):
                    self._on_gone(node_id, incarnation)

    async def _found_gone(self, node_id: int) -> bool:
        """Return when nobody listens any more, however long that takes; False if it is not known where."""
        refusals, pause_s = 0, _FIRST_PAUSE_S
        while True:
            address = self._address(node_id)
            if address is None:
                return False
            refusals = refusals + 1 if await _is_refused(*address) else 0
            if refusals == _REFUSALS:
                logger.warning("node %d is gone: nobody listens at %s:%d any more", node_id, *address)
                return True
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class _Held(asyncio.Protocol):
    """A connection over which nothing is said."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def _is_refused(host: str, port: int) -> bool:
    """If the connection is accepted: False, but only once it has ended."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            transport, held = await asyncio.get_running_loop().create_connection(_Held, host, port)
    except OSError as error:
        # Unreachable, timed out, reset: none of it says that the process is gone.
        return is_refusal(error)
    try:
        await held.ended.wait()
    finally:
        transport.close()
    return False
