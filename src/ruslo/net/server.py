"""Listening sockets: one for each listener, with limits on the connections of clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ruslo.model.errors import ConfigError, ProtocolError
from ruslo.model.log_ids import log_ids
from ruslo.net.connection import Connection, FrameHandler
from ruslo.net.log_throttle import LogThrottle
from ruslo.net.request_memory import RequestMemory

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 1.0
"""How long a stop waits for clients that read slowly."""
WARNING_INTERVAL_S = 60.0
"""At most one warning about the connections of an address is logged in this time."""
MAX_WARNED_ADDRESSES = 1000


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_frame_bytes: int
    max_connections: int
    max_connections_per_ip: int
    idle_ms: int
    """Connections that are idle for this long are closed; negative: never."""
    max_connections_of_ip: Mapping[str, int] = field(default_factory=dict)
    """Addresses with a limit of their own, which replaces ``max_connections_per_ip``."""
    protected_listener: str | None = None
    """Its connections are accepted beyond ``max_connections``: one of another listener is closed instead."""
    max_request_bytes: int = 256 * 1024 * 1024
    """The memory that large requests of all connections may take together while they arrive."""
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class Server:
    """Listeners that share one frame handler and one set of limits.

    They are bound first and accept later, so that the port is known and reserved before the node can serve.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self.request_memory = RequestMemory(limits.max_request_bytes)
        self._handle_frame: FrameHandler = _not_started
        self._servers: list[asyncio.Server] = []
        self.listener_names: list[str] = []
        self.connections: set[Connection] = set()
        self._per_ip: Counter[str] = Counter()
        self._idle_sweeps: dict[Connection, int] = {}
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._warnings = LogThrottle(WARNING_INTERVAL_S, MAX_WARNED_ADDRESSES)
        self._all_closed = asyncio.Event()

    def limit(self, limits: ServerLimits) -> None:
        """Set the limits of new connections; buffer sizes and backlog of open listeners do not change."""
        self._limits = limits

    async def listen(self, listener_name: str, host: str, port: int) -> int:
        """Open a listener; returns its port, which the kernel chooses if ``port`` is 0."""
        loop = asyncio.get_running_loop()
        limits = self._limits
        # All interfaces of IPv6 include those of IPv4, as for a server in Java; but if the kernel chose the
        # port it would choose two.
        all_interfaces = not host or (host == "::" and port != 0)
        try:
            server = await loop.create_server(
                lambda: Connection(
                    self._handle_frame,
                    self,
                    listener_name,
                    self._limits.max_frame_bytes,
                    self.request_memory,
                ),
                None if all_interfaces else host,
                port,
                backlog=limits.backlog,
                reuse_address=True,
                start_serving=False,
            )
        except OSError as error:
            raise ConfigError(_listen_problem(listener_name, host, port, error)) from error
        for sock in server.sockets:
            # Accepted sockets inherit these; -1 leaves the choice to the kernel, as in Kafka.
            if limits.send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
            if limits.receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        self._servers.append(server)
        self.listener_names.append(listener_name)
        actual: int = server.sockets[0].getsockname()[1]
        return actual

    async def start(self, handle_frame: FrameHandler) -> None:
        """Accept connections on every listener; called again, it sets the handler of new connections."""
        self._handle_frame = handle_frame
        for server in self._servers:
            await server.start_serving()
        if self._sweep_timer is None:
            self._schedule_sweep()

    async def close(self) -> None:
        """Stop accepting and close every connection once its responses are sent, or after a timeout."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            self._all_closed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._all_closed.wait()
        for connection in list(self.connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()

    def abort(self) -> None:
        """Close listeners and connections at once, as the end of a process does."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.abort()

    # -- connections -----------------------------------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> bool:
        self.connections.add(connection)
        self._per_ip[connection.peer_host] += 1
        problem = self._over_limit(connection)
        if problem is not None:
            self._warn(connection, f"refused a connection: {problem}")
            return False
        return True

    def protocol_violated(self, connection: Connection, error: ProtocolError) -> None:
        self._warn(connection, f"closing a connection: {error}")

    def _warn(self, connection: Connection, text: str) -> None:
        """Once per address and interval: a client in a reconnect loop must not fill the log."""
        if self._warnings.admits(connection.peer_host, asyncio.get_running_loop().time()):
            logger.warning("%s", text, extra=log_ids(connection=connection.peer))

    def connection_closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._idle_sweeps.pop(connection, None)
        self._per_ip[connection.peer_host] -= 1
        if not self._per_ip[connection.peer_host]:
            del self._per_ip[connection.peer_host]
        if not self.connections:
            self._all_closed.set()

    def _over_limit(self, connection: Connection) -> str | None:
        host = connection.peer_host
        if len(self.connections) > self._limits.max_connections:
            if connection.listener_name != self._limits.protected_listener:
                return f"max.connections={self._limits.max_connections} is reached"
            self._close_most_idle()
        allowed = self._limits.max_connections_of_ip.get(host, self._limits.max_connections_per_ip)
        if self._per_ip[host] > allowed:
            return f"max.connections.per.ip={allowed} is reached"
        return None

    def _close_most_idle(self) -> None:
        others = [each for each in self.connections if each.listener_name != self._limits.protected_listener]
        if others:
            max(others, key=lambda each: self._idle_sweeps.get(each, 0)).abort()

    # -- idle connections ------------------------------------------------------------------------------------

    SWEEPS_PER_IDLE_TIMEOUT = 10
    MAX_SWEEP_INTERVAL_S = 30.0

    def _schedule_sweep(self) -> None:
        idle_s = self._limits.idle_ms / 1000 if self._limits.idle_ms >= 0 else float("inf")
        self._sweep_interval_s = min(
            max(idle_s / self.SWEEPS_PER_IDLE_TIMEOUT, 0.05), self.MAX_SWEEP_INTERVAL_S
        )
        self._sweep_timer = asyncio.get_running_loop().call_later(self._sweep_interval_s, self._sweep)

    def _sweep(self) -> None:
        """Shrink the buffers of idle connections; close those that are idle too long or whose client left."""
        for connection in list(self.connections):
            connection.check_peer()
            if connection.shrink_if_idle():
                sweeps = self._idle_sweeps.get(connection, 0) + 1
                self._idle_sweeps[connection] = sweeps
                stalls = connection.holds_memory and self.request_memory.is_short
                if stalls or 0 <= self._limits.idle_ms <= sweeps * self._sweep_interval_s * 1000:
                    # Not close: a client that never reads would keep its responses, and files, open for ever.
                    connection.abort()
            else:
                self._idle_sweeps.pop(connection, None)
        for address, count in self._warnings.end_intervals(asyncio.get_running_loop().time()):
            logger.warning("%d more connections from %s were refused or closed", count, address)
        self._schedule_sweep()


def _not_started(connection: Connection, buf: bytearray, start: int, end: int) -> bool:
    raise AssertionError("a listener accepted a connection before the server was started")


def _listen_problem(listener_name: str, host: str, port: int, error: OSError) -> str:
    where = f"{host or '*'}:{port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"listener {listener_name} cannot use {where}: another process listens there; "
            "stop it or choose another port in 'listeners'"
        )
    if error.errno == errno.EACCES:
        return f"listener {listener_name} cannot use {where}: permission denied; choose a port above 1023"
    return f"listener {listener_name} cannot use {where}: {error.strerror or error}; check 'listeners'"
