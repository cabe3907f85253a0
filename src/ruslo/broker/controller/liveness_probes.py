"""Detects that another broker's process has ended, instead of waiting for its session to expire.

A closed connection followed by "connection refused" at the broker's address is evidence: the host is up and
nothing listens there. Silence is not, because a slow or partitioned host is silent too; then the session
timeout decides.

The connection is the one of the broker's heartbeats. A new controller has none for up to a heartbeat
interval, and a broker whose connection was lost may be alive. So a probe that is accepted keeps its
connection, whose end is the next sign, until a heartbeat arrives. That leaves no moment in which a death
would go unnoticed: whatever a dying process still accepts is reset when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial

from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.net.connection import Connection
from ruslo.net.errors import is_refusal

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 2.0
_INITIAL_BACKOFF_S = 0.03
_MAX_BACKOFF_S = 0.3
_REFUSALS_NEEDED = 2
"""Consecutive refusals that prove it: a broker may be registered a moment before it listens."""


@dataclass(eq=False)
class LivenessProbes:
    _address: Callable[[int], tuple[str, int] | None]
    """The address of a broker."""
    _on_gone: Callable[[int, int], None]
    """Called with the id and epoch of a broker."""
    _: KW_ONLY
    session_timeout_ms: int
    """After this time the session timeout has decided, so probing ends."""

    def __post_init__(self) -> None:
        self._watched: dict[int, tuple[int, Connection]] = {}
        self._probes: dict[int, asyncio.Task[None]] = {}

    def heartbeat_received(self, broker_id: int, epoch: int, connection: Connection) -> None:
        """The broker sent a heartbeat over this connection; its end will start a probe."""
        if self._watched.get(broker_id) != (epoch, connection):
            self._watched[broker_id] = (epoch, connection)
            connection.when_lost(lambda: self._on_connection_lost(broker_id, epoch, connection))
            self._cancel_probe(broker_id)

    def probe(self, broker_id: int, epoch: int) -> None:
        """The broker is registered but has not sent a heartbeat yet: watch its address."""
        if broker_id not in self._watched:
            self._start_probe(broker_id, epoch)

    async def stop(self) -> None:
        self._watched.clear()
        await cancel_all(*self._probes.values())

    def _on_connection_lost(self, broker_id: int, epoch: int, connection: Connection) -> None:
        if self._watched.get(broker_id) == (epoch, connection):
            del self._watched[broker_id]
            self._start_probe(broker_id, epoch)

    def _start_probe(self, broker_id: int, epoch: int) -> None:
        self._cancel_probe(broker_id)
        probe = asyncio.get_running_loop().create_task(self._probe(broker_id, epoch))
        self._probes[broker_id] = probe
        probe.add_done_callback(partial(self._on_probe_done, broker_id))

    def _cancel_probe(self, broker_id: int) -> None:
        probe = self._probes.pop(broker_id, None)
        if probe is not None:
            probe.cancel()

    def _on_probe_done(self, broker_id: int, probe: asyncio.Task[None]) -> None:
        if self._probes.get(broker_id) is probe:
            del self._probes[broker_id]

    async def _probe(self, broker_id: int, epoch: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.session_timeout_ms / 1000):
                if await self._is_gone(broker_id):
                    self._on_gone(broker_id, epoch)

    async def _is_gone(self, broker_id: int) -> bool:
        """Return True when its address refuses connections, however long that takes; False if it has none."""
        refusals, backoff_s = 0, _INITIAL_BACKOFF_S
        while True:
            address = self._address(broker_id)
            if address is None:
                return False
            refusals = refusals + 1 if await _is_refused(*address) else 0
            if refusals == _REFUSALS_NEEDED:
                logger.warning("broker %d is gone: %s:%d refuses connections", broker_id, *address)
                return True
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _MAX_BACKOFF_S)


class _IdleConnection(asyncio.Protocol):
    """A connection without traffic."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def _is_refused(host: str, port: int) -> bool:
    """Whether the address refuses; an accepted connection returns False once it has ended."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            transport, connection = await asyncio.get_running_loop().create_connection(
                _IdleConnection, host, port
            )
    except OSError as error:
        # Unreachable, timed out or reset: that does not prove that the process has ended.
        return is_refusal(error)
    try:
        await connection.ended.wait()
    finally:
        transport.close()
    return False
