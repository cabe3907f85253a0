"""Listening sockets: one for each listener, with limits on the connections of clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ruslo.model.errors import ConfigError, ProtocolError
from ruslo.model.log_ids import log_ids, one_line
from ruslo.model.principals import ANONYMOUS, Principal
from ruslo.model.scram import MECHANISM_OF
from ruslo.net.connection import Connection, FrameHandler
from ruslo.net.connection_rates import ConnectionRates
from ruslo.net.log_throttle import LogThrottle
from ruslo.net.request_memory import RequestMemory
from ruslo.net.sasl.mechanism import ServerMechanismKind
from ruslo.net.sasl.server_exchange import ServerExchange
from ruslo.net.tls.errors import TlsError
from ruslo.net.tls.layer import TlsLayer

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 1.0
"""How long a stop waits for clients that read slowly."""
WARNING_INTERVAL_S = 60.0
"""At most one warning about the connections of an address is logged in this time."""
MAX_WARNED_ADDRESSES = 1000
LOGIN_TIMEOUT_S = 60.0
"""A client of a SASL listener must authenticate within this time, even if it sends a byte now and then."""
IP_THROTTLE_S = 1.0
"""How long a connection beyond the quota of its address stays open, unserved."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_frame_bytes: int
    max_connections: int
    max_connections_per_ip: int
    idle_ms: int
    """Connections that are idle for this long are closed; negative: never."""
    max_connections_of_ip: Mapping[str, int] = field(default_factory=dict)
    """Addresses with a limit of their own, which replaces ``max_connections_per_ip``."""
    max_connections_of_listener: Mapping[str, int] = field(default_factory=dict)
    """Listeners with a limit of their own, besides the one of all listeners."""
    creation_rate: float | None = None
    """New connections per second; None: no limit."""
    creation_rate_of_listener: Mapping[str, float] = field(default_factory=dict)
    protected_listener: str | None = None
    """Its connections are accepted beyond ``max_connections``: one of another listener is closed instead."""
    max_request_bytes: int = 256 * 1024 * 1024
    """The memory that large requests of all connections may take together while they arrive."""
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class TlsListener(Protocol):
    """The TLS of a listener."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context of new connections; it changes when certificates are replaced."""
        ...

    def principal_of(self, session: ssl.SSLObject) -> Principal:
        """The principal of the client's certificate; ANONYMOUS without one. Raises TlsError."""
        ...


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """How the connections of a listener are encrypted, and how their clients authenticate."""

    tls: TlsListener | None = None
    mechanisms: Mapping[str, ServerMechanismKind] | None = None
    """The SASL mechanisms; None: the listener has no SASL."""


PLAINTEXT = ListenerSecurity()


class Server:
    """Listeners that share one frame handler and one set of limits.

    They are bound first and accept later, so that the port is known and reserved before the node can serve.
    """

    def __init__(
        self, limits: ServerLimits, connection_rate_of_ip: Callable[[str], float | None] = lambda host: None
    ) -> None:
        """``connection_rate_of_ip``: the quota of an address, in new connections per second."""
        self._rates = ConnectionRates(connection_rate_of_ip)
        self.limit(limits)
        self.request_memory = RequestMemory(limits.max_request_bytes)
        self.frame_handler: FrameHandler = _not_started
        self.unauthenticated_handler: FrameHandler = _not_started
        self._security: dict[str, ListenerSecurity] = {}
        self._servers: list[asyncio.Server] = []
        self.listener_names: list[str] = []
        self.connections: set[Connection] = set()
        self.successful_authentications: Counter[str] = Counter()
        """By listener. As in Kafka: TLS handshakes without SASL count, too."""
        self.failed_authentications: Counter[str] = Counter()
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._idle_sweeps: dict[Connection, int] = {}
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._warnings = LogThrottle(WARNING_INTERVAL_S, MAX_WARNED_ADDRESSES)
        self._all_closed = asyncio.Event()
        self._closing = False

    def limit(self, limits: ServerLimits) -> None:
        """Set the limits of new connections; buffer sizes and backlog of open listeners do not change."""
        self._limits = limits
        self._rates.limit(limits.creation_rate, dict(limits.creation_rate_of_listener))

    @property
    def max_frame_bytes(self) -> int:
        return self._limits.max_frame_bytes

    async def listen(
        self, listener_name: str, host: str, port: int, security: ListenerSecurity = PLAINTEXT
    ) -> int:
        """Open a listener; returns its port, which the kernel chooses if ``port`` is 0."""
        self._security[listener_name] = security
        loop = asyncio.get_running_loop()
        limits = self._limits
        # All interfaces of IPv6 include those of IPv4, as for a server in Java; but if the kernel chose the
        # port it would choose two.
        all_interfaces = not host or (host == "::" and port != 0)
        try:
            server = await loop.create_server(
                self._protocol_factory(listener_name, security),
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

    def _protocol_factory(
        self, listener_name: str, security: ListenerSecurity
    ) -> Callable[[], asyncio.BaseProtocol]:
        def connection() -> Connection:
            exchange = None if security.mechanisms is None else ServerExchange(security.mechanisms)
            return Connection(self, listener_name, self.request_memory, exchange)

        tls = security.tls
        return connection if tls is None else lambda: TlsLayer(connection(), tls.context, server_side=True)

    async def start(
        self, frame_handler: FrameHandler, unauthenticated_handler: FrameHandler | None = None
    ) -> None:
        """Accept connections on every listener; called again, it sets the handlers of new connections.

        ``unauthenticated_handler`` gets the frames of SASL listeners until the client is authenticated.
        """
        self.frame_handler = frame_handler
        if unauthenticated_handler is not None:
            self.unauthenticated_handler = unauthenticated_handler
        for server in self._servers:
            await server.start_serving()
        if self._sweep_timer is None:
            self._schedule_sweep()

    async def close(self) -> None:
        """Stop accepting and close every connection once its responses are sent, or after a timeout."""
        self._closing = True
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
        self._closing = True
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
        self._per_listener[connection.listener_name] += 1
        if self._closing:
            # The event loop had accepted it before the listener was closed.
            return False
        problem = self._over_limit(connection)
        if problem is not None:
            self._warn(connection, f"refused a connection: {problem}")
            return False
        self._slow_down(connection)
        return True

    def _slow_down(self, connection: Connection) -> None:
        """Serve the connection later if too many are created."""
        loop = asyncio.get_running_loop()
        host, listener = connection.peer_host, connection.listener_name
        if self._rates.exceeds_ip_quota(host, loop.time()):
            self._warn(connection, "refused a connection: the quota connection_creation_rate is exceeded")
            connection.mute(int(IP_THROTTLE_S * 1000))
            loop.call_later(IP_THROTTLE_S, connection.abort)
            return
        protected = listener == self._limits.protected_listener
        delay_s = self._rates.delay_s(listener, loop.time(), protected=protected)
        if delay_s > 0:
            connection.mute(int(delay_s * 1000) + 1)

    def tls_established(self, connection: Connection, session: ssl.SSLObject) -> Principal:
        tls = self._security[connection.listener_name].tls
        principal = ANONYMOUS if tls is None else tls.principal_of(session)
        if connection.exchange is None:
            self.authentication_succeeded(connection)
        return principal

    def protocol_violated(self, connection: Connection, error: ProtocolError | TlsError) -> None:
        if isinstance(error, TlsError):
            self.failed_authentications[connection.listener_name] += 1
        self._warn(connection, f"closing a connection to {connection.listener_name}: {error}")

    def authentication_succeeded(self, connection: Connection) -> None:
        self.successful_authentications[connection.listener_name] += 1

    def authentication_failed(self, connection: Connection, mechanism: str, reason: str) -> None:
        self.failed_authentications[connection.listener_name] += 1
        self._warn(connection, f"{mechanism or 'SASL'} authentication failed: {reason}")

    def _warn(self, connection: Connection, text: str) -> None:
        """Once per address and interval: a client in a reconnect loop must not fill the log."""
        if self._warnings.admits(connection.peer_host, asyncio.get_running_loop().time()):
            logger.warning("%s", one_line(text), extra=log_ids(connection=connection.peer))

    def connection_closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._idle_sweeps.pop(connection, None)
        self._per_ip[connection.peer_host] -= 1
        if not self._per_ip[connection.peer_host]:
            del self._per_ip[connection.peer_host]
        self._per_listener[connection.listener_name] -= 1
        if not self.connections:
            self._all_closed.set()

    def close_logins(self, users: Collection[str], tokens: Collection[str]) -> None:
        """Close the connections that logged in with SCRAM as one of the users, or with one of the tokens.

        A client in the middle of its log-in may have got the account already, so it has to begin again.
        """
        for connection in list(self.connections):
            exchange = connection.exchange
            if exchange is None or exchange.mechanism_name not in MECHANISM_OF:
                continue
            identity = exchange.identity
            if (
                identity is None
                or identity.token_id in tokens
                or (identity.token_id is None and identity.user in users)
            ):
                connection.close()

    def _over_limit(self, connection: Connection) -> str | None:
        host = connection.peer_host
        if len(self.connections) > self._limits.max_connections:
            if connection.listener_name != self._limits.protected_listener:
                return f"max.connections={self._limits.max_connections} is reached"
            self._close_most_idle()
        of_listener = self._limits.max_connections_of_listener.get(connection.listener_name)
        if of_listener is not None and self._per_listener[connection.listener_name] > of_listener:
            return f"max.connections={of_listener} of listener {connection.listener_name} is reached"
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
            awaits_login = connection.awaits_login
            if connection.shrink_if_idle() or awaits_login:
                sweeps = self._idle_sweeps.get(connection, 0) + 1
                self._idle_sweeps[connection] = sweeps
                stalls = connection.holds_memory and self.request_memory.is_short
                idle_s = sweeps * self._sweep_interval_s
                is_late = awaits_login and idle_s >= LOGIN_TIMEOUT_S
                if stalls or is_late or 0 <= self._limits.idle_ms <= idle_s * 1000:
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
