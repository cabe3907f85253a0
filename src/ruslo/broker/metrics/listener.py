"""The HTTP listener: ``/metrics`` for Prometheus, ``/health/live`` and ``/health/ready`` for probes.

It runs on the node's event loop, so a response of ``/health/live`` proves that the event loop runs. It reads
only the head of a request, with limits of size and time, and closes the connection after the response. With
TLS it serves HTTPS.

A new connection is always accepted: idle connections cannot keep a probe out. If there are too many, the
listener closes an old one.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

from ruslo.broker.metrics.exposition import CONTENT_TYPE
from ruslo.broker.metrics.http_streams import HttpStreams
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.model.errors import ConfigError
from ruslo.net.log_throttle import LogThrottle
from ruslo.net.server import MAX_WARNED_ADDRESSES, WARNING_INTERVAL_S, TlsListener
from ruslo.net.tls.errors import TlsError
from ruslo.net.tls.layer import TlsLayer

MAX_HEAD_BYTES = 16 * 1024
MAX_CONNECTIONS = 64
HEAD_TIMEOUT_S = 10.0
RESPONSE_TIMEOUT_S = 30.0
SILENT_S = 1.0
"""A connection without a request after this time is closed before one that waits for its response."""

logger = logging.getLogger(__name__)


class Health(NamedTuple):
    ready: bool
    state: str
    """The state of the node: ``starting``, ``ready``, ``fenced`` or ``stopping``."""


class _Response(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


class _Exchange:
    """One connection: a request and its response."""

    __slots__ = ("begun_s", "has_request", "host")

    def __init__(self, host: str, begun_s: float) -> None:
        self.host = host
        self.begun_s = begun_s
        self.has_request = False


class MetricsListener:
    def __init__(self, render: Callable[[], Awaitable[bytes]], health: Callable[[], Health]) -> None:
        self._render = render
        self._health = health
        self._server: asyncio.Server | None = None
        self._exchanges: dict[_Exchange, asyncio.Task[None]] = {}
        """Open connections, the oldest first."""
        self._one_at_a_time = asyncio.Lock()
        """Held by a scrape: two at the same time would take twice the slices of the event loop."""
        self._warnings = LogThrottle(WARNING_INTERVAL_S, MAX_WARNED_ADDRESSES)

    async def listen(self, host: str, port: int, tls: TlsListener | None = None) -> int:
        """Return the port, which the kernel chooses if ``port`` is 0. Raises ConfigError."""

        def streams() -> HttpStreams:
            return HttpStreams(self._accepted, self._tls_failed, MAX_HEAD_BYTES)

        def encrypted() -> TlsLayer:
            assert tls is not None
            return TlsLayer(streams(), tls.context, server_side=True)

        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(streams if tls is None else encrypted, host or None, port)
        except OSError as error:
            why = "another process listens there" if error.errno == errno.EADDRINUSE else error.strerror
            raise ConfigError(
                f"metrics cannot be served at {host}:{port}: {why}; set another address in "
                "ruslo.metrics.listener, or leave it empty to disable metrics"
            ) from error
        actual: int = self._server.sockets[0].getsockname()[1]
        return actual

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        await cancel_all(*self._exchanges.values())
        await self._server.wait_closed()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        if len(self._exchanges) >= MAX_CONNECTIONS:
            self._close_one(loop.time())
        peer = writer.get_extra_info("peername")
        exchange = _Exchange(peer[0] if peer else "", loop.time())
        task = loop.create_task(self._serve(exchange, reader, writer))
        self._exchanges[exchange] = task
        task.add_done_callback(lambda _: self._exchanges.pop(exchange, None))

    def _tls_failed(self, host: str, error: TlsError, received: bytes) -> None:
        """Warn once per address and interval: probes come every few seconds."""
        now_s = asyncio.get_running_loop().time()
        for address, count in self._warnings.end_intervals(now_s):
            logger.warning("%d more TLS connections from %s to the metrics listener failed", count, address)
        if self._warnings.admits(host, now_s):
            fix = "; use the scheme https in the scrape config and in probes" if received else ""
            logger.warning("closing a connection from %s to the metrics listener: %s%s", host, error, fix)

    def _close_one(self, now_s: float) -> None:
        """Close a connection of the address with most of them: a silent one, or else the oldest."""
        ((crowded, _),) = Counter(each.host for each in self._exchanges).most_common(1)
        candidates = [each for each in self._exchanges if each.host == crowded]
        silent = (each for each in candidates if not each.has_request and now_s - each.begun_s >= SILENT_S)
        self._exchanges.pop(next(silent, candidates[0])).cancel()

    async def _serve(
        self, exchange: _Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            exchange.has_request = True
            method, _, rest = head.partition(b" ")
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                response = await self._respond(method, rest.partition(b" ")[0].partition(b"?")[0])
                body = b"" if method == b"HEAD" else response.body
                writer.write(_head(response) + body)
                await writer.drain()
            writer.close()
            await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            # The client does not wait for a response.
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise

    async def _respond(self, method: bytes, path: bytes) -> _Response:
        if method not in (b"GET", b"HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is supported")
        if path == b"/metrics":
            async with self._one_at_a_time:
                return _Response(HTTPStatus.OK, CONTENT_TYPE, await self._render())
        if path == b"/health/live":
            return _json(HTTPStatus.OK, {"state": "live"})
        if path == b"/health/ready":
            ready, state = self._health()
            status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
            return _json(status, {"state": state})
        return _text(HTTPStatus.NOT_FOUND, "unknown path; use /metrics, /health/live or /health/ready")


def _head(response: _Response) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if response.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    return (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"{allow}Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    ).encode()


def _json(status: HTTPStatus, content: object) -> _Response:
    return _Response(status, "application/json", json.dumps(content).encode() + b"\n")


def _text(status: HTTPStatus, text: str) -> _Response:
    return _Response(status, "text/plain; charset=utf-8", text.encode() + b"\n")
