"""Notices that another node's process has ended, instead of waiting for its session to run out.

A closed connection followed by "connection refused" at the node's address is evidence: the host is there and
says that nobody listens. Silence is none, because a host that is only slow or cut off is silent too; there
the session time-out decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from ruslo.net.connection import Connection

logger = logging.getLogger(__name__)

_PROBE_TIMEOUT_S = 2.0
_PAUSES_S = (0.0, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0)
"""A process that dies closes its sockets one by one: it may still seem to listen for a moment, which is long
where it is large and the machine busy."""
_REFUSALS = 2
"""In a row. A broker may be known a moment before it listens."""


class DeathWatch:
    def __init__(
        self, address: Callable[[int], tuple[str, int] | None], on_gone: Callable[[int, int], None]
    ) -> None:
        """``address``: where a node listens. ``on_gone``: told of node and incarnation (a broker's epoch)."""
        self._address = address
        self._on_gone = on_gone
        self._watched: dict[int, tuple[int, Connection]] = {}
        self._probes: set[asyncio.Task[None]] = set()

    def heard_from(self, node_id: int, incarnation: int, connection: Connection) -> None:
        """It spoke over this connection, the end of which will be a first sign."""
        if self._watched.get(node_id) != (incarnation, connection):
            self._watched[node_id] = (incarnation, connection)
            connection.when_lost(lambda: self._lost(node_id, incarnation, connection))

    def suspect(self, node_id: int, incarnation: int) -> None:
        """It should be there, but has not spoken to us yet: look whether it listens."""
        if node_id not in self._watched:
            self._begin_probe(node_id, incarnation)

    async def stop(self) -> None:
        self._watched.clear()
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)

    def _lost(self, node_id: int, incarnation: int, connection: Connection) -> None:
        if self._watched.get(node_id) == (incarnation, connection):
            del self._watched[node_id]
            self._begin_probe(node_id, incarnation)

    def _begin_probe(self, node_id: int, incarnation: int) -> None:
        probe = asyncio.get_running_loop().create_task(self._probe(node_id, incarnation))
        self._probes.add(probe)
        probe.add_done_callback(self._probes.discard)

    async def _probe(self, node_id: int, incarnation: int) -> None:
        refusals = 0
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            if node_id in self._watched:
                return
            address = self._address(node_id)
            if address is None:
                return
            refusals = refusals + 1 if await _is_refused(*address) else 0
            if refusals == _REFUSALS:
                logger.warning("node %d is gone: nobody listens at %s:%d any more", node_id, *address)
                self._on_gone(node_id, incarnation)
                return


async def _is_refused(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except OSError:
        # Unreachable, timed out, reset: none of it says that the process is gone.
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return False
