"""Listening sockets: one server for each listener, with limits on who may connect."""

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

CLOSE_SECONDS = 1.0
"""How long a stop waits for slow readers."""
WARNING_INTERVAL_S = 60.0
"""One warning is logged in this time about the connections of one address."""
MAX_WARNED_ADDRESSES = 1000


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_frame_bytes: int
    max_connections: int
    max_connections_per_ip: int
    idle_ms: int
    """Connections silent for this long are closed; negative: never."""
    max_connections_of_ip: Mapping[str, int] = field(default_factory=dict)
    """Addresses with a limit of their own, which replaces ``max_connections_per_ip``."""
    protected_listener: str | None = None
    """Who comes to this one gets in beyond ``max_connections``; somebody on another listener goes for it."""
    max_request_bytes: int = 256 * 1024 * 1024
    """What large requests of all connections may take together while they arrive."""
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class Server:
    """Listeners that share one handler of frames, and limits that count over all of them together.

    They are bound first and accept later, so that a port is known, and held, before there is anything to
    serve.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self.request_memory = RequestMemory(limits.max_request_bytes)
        self._handle_frame: FrameHandler = _not_started
        self._servers: list[asyncio.Server] = []
        self.listener_names: list[str] = []
        self.connections: set[Connection] = set()
        self._per_ip: Counter[str] = Counter()
        self._idle_rounds: dict[Connection, int] = {}
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._warnings = LogThrottle(WARNING_INTERVAL_S, MAX_WARNED_ADDRESSES)
        self._last_one_left = asyncio.Event()

    def limit(self, limits: ServerLimits) -> None:
        """New limits for connections to come; the buffer sizes and the backlog of open listeners stay."""
        self._limits = limits

    async def listen(self, listener_name: str, host: str, port: int) -> int:
        """Open a listener; returns the port (useful when 0 was asked for)."""
        loop = asyncio.get_running_loop()
        limits = self._limits
        # All interfaces of IPv6 means those of IPv4 too, as for a server in Java; but where the kernel
        # chooses the port it would choose two.
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
        """Begin to accept on every listener; called again, connections to come get the new handler."""
        self._handle_frame = handle_frame
        for server in self._servers:
            await server.start_serving()
        if self._sweep_timer is None:
            self._schedule_sweep()

    async def close(self) -> None:
        """Stop accepting and close every connection once its answers have left, if they leave soon."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            self._last_one_left.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._last_one_left.wait(), CLOSE_SECONDS)
        for connection in list(self.connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()

    def abort(self) -> None:
        """Let go of listeners and connections at once, as the end of a process does."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.abort()

    # -- connections come and go -----------------------------------------------------------------------------

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
        self._idle_rounds.pop(connection, None)
        self._per_ip[connection.peer_host] -= 1
        if not self._per_ip[connection.peer_host]:
            del self._per_ip[connection.peer_host]
        if not self.connections:
            self._last_one_left.set()

    def _over_limit(self, connection: Connection) -> str | None:
        host = connection.peer_host
        if len(self.connections) > self._limits.max_connections:
            if connection.listener_name != self._limits.protected_listener:
                return f"max.connections={self._limits.max_connections} is reached"
            self._drop_quietest()
        allowed = self._limits.max_connections_of_ip.get(host, self._limits.max_connections_per_ip)
        if self._per_ip[host] > allowed:
            return f"max.connections.per.ip={allowed} is reached"
        return None

    def _drop_quietest(self) -> None:
        others = [each for each in self.connections if each.listener_name != self._limits.protected_listener]
        if others:
            max(others, key=lambda each: self._idle_rounds.get(each, 0)).abort()

    # -- idle connections ------------------------------------------------------------------------------------

    SWEEPS_PER_IDLE_TIMEOUT = 10
    MAX_SWEEP_SECONDS = 30.0

    def _schedule_sweep(self) -> None:
        idle_s = self._limits.idle_ms / 1000 if self._limits.idle_ms >= 0 else float("inf")
        self._sweep_seconds = min(max(idle_s / self.SWEEPS_PER_IDLE_TIMEOUT, 0.05), self.MAX_SWEEP_SECONDS)
        self._sweep_timer = asyncio.get_running_loop().call_later(self._sweep_seconds, self._sweep)

    def _sweep(self) -> None:
        """Shrink the buffers of quiet connections, close those that were silent too long or have ended."""
        for connection in list(self.connections):
            connection.check_peer()
            if connection.shrink_if_idle():
                rounds = self._idle_rounds.get(connection, 0) + 1
                self._idle_rounds[connection] = rounds
                stalls = connection.holds_memory and self.request_memory.is_short
                if stalls or 0 <= self._limits.idle_ms <= rounds * self._sweep_seconds * 1000:
                    # Not close: a client that never reads would keep its answers, and files, for ever.
                    connection.abort()
            else:
                self._idle_rounds.pop(connection, None)
        for address, count in self._warnings.end_intervals(asyncio.get_running_loop().time()):
            logger.warning("%d more connections from %s were refused or closed", count, address)
        self._schedule_sweep()


def _not_started(connection: Connection, buf: bytearray, start: int, end: int) -> bool:
    raise AssertionError("a listener accepted before the server was started")


def _listen_problem(listener_name: str, host: str, port: int, error: OSError) -> str:
    where = f"{host or '*'}:{port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"listener {listener_name} cannot use {where}: another process listens there already; "
            "stop it or choose another port in 'listeners'"
        )
    if error.errno == errno.EACCES:
        return f"listener {listener_name} cannot use {where}: not permitted; choose a port above 1023"
    return f"listener {listener_name} cannot use {where}: {error.strerror or error}; check 'listeners'"
