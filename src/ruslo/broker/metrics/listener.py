"""The HTTP listener: ``/metrics`` for Prometheus, ``/health/live`` and ``/health/ready`` for probes.

It runs on the node's event loop, so an answer of ``/health/live`` proves that the loop turns. It reads
nothing but a request's head, of limited size and within limited time, and one answer ends the connection.

A new connection is always accepted: idle connections cannot keep a probe out. When there are too
many, the listener ends an old one.
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
from ruslo.model.errors import ConfigError

MAX_HEAD_BYTES = 16 * 1024
MAX_CONNECTIONS = 64
HEAD_S = 10.0
ANSWER_S = 30.0
PROMPT_S = 1.0
"""A client that has been silent for longer is ended before one whose request is being answered."""

logger = logging.getLogger(__name__)


class Health(NamedTuple):
    ready: bool
    state: str
    """What the node does, in a word or two: ``starting``, ``ready``, ``fenced``, ``stopping``."""


class _Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


class _Exchange:
    """One connection: a request and its answer."""

    __slots__ = ("begun_s", "has_asked", "host")

    def __init__(self, host: str, begun_s: float) -> None:
        self.host = host
        self.begun_s = begun_s
        self.has_asked = False


class MetricsListener:
    def __init__(self, render: Callable[[], Awaitable[bytes]], health: Callable[[], Health]) -> None:
        self._render = render
        self._health = health
        self._server: asyncio.Server | None = None
        self._exchanges: dict[_Exchange, asyncio.Task[None]] = {}
        """The oldest one first."""
        self._one_at_a_time = asyncio.Lock()
        """Scrapes: two that run beside each other would take twice the turns of the loop."""

    async def listen(self, host: str, port: int) -> int:
        """Returns the port (useful when 0 was asked for). Raises ConfigError."""
        try:
            self._server = await asyncio.start_server(
                self._accepted, host or None, port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            why = "another process listens there" if error.errno == errno.EADDRINUSE else error.strerror
            raise ConfigError(
                f"metrics cannot be served at {host}:{port}: {why}; choose another address in "
                "ruslo.metrics.listener, or leave it empty to serve none"
            ) from error
        actual: int = self._server.sockets[0].getsockname()[1]
        return actual

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._exchanges.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        if len(self._exchanges) >= MAX_CONNECTIONS:
            self._end_one(loop.time())
        peer = writer.get_extra_info("peername")
        exchange = _Exchange(peer[0] if peer else "", loop.time())
        task = loop.create_task(self._serve(exchange, reader, writer))
        self._exchanges[exchange] = task
        task.add_done_callback(lambda _: self._exchanges.pop(exchange, None))

    def _end_one(self, now_s: float) -> None:
        """Of the address that has most connections: an old silent one, or else the oldest."""
        ((crowded, _),) = Counter(each.host for each in self._exchanges).most_common(1)
        candidates = [each for each in self._exchanges if each.host == crowded]
        silent = (each for each in candidates if not each.has_asked and now_s - each.begun_s >= PROMPT_S)
        self._exchanges.pop(next(silent, candidates[0])).cancel()

    async def _serve(
        self, exchange: _Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            exchange.has_asked = True
            method, _, rest = head.partition(b" ")
            async with asyncio.timeout(ANSWER_S):
                answer = await self._answer(method, rest.partition(b" ")[0].partition(b"?")[0])
                body = b"" if method == b"HEAD" else answer.body
                writer.write(_head(answer) + body)
                await writer.drain()
            writer.close()
            await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            # A client that asks like this does not wait for an answer either.
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise

    async def _answer(self, method: bytes, path: bytes) -> _Answer:
        if method not in (b"GET", b"HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here")
        if path == b"/metrics":
            async with self._one_at_a_time:
                return _Answer(HTTPStatus.OK, CONTENT_TYPE, await self._render())
        if path == b"/health/live":
            return _json(HTTPStatus.OK, {"state": "live"})
        if path == b"/health/ready":
            ready, state = self._health()
            status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
            return _json(status, {"state": state})
        return _text(HTTPStatus.NOT_FOUND, "there are /metrics, /health/live and /health/ready")


def _head(answer: _Answer) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if answer.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    return (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        f"{allow}Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    ).encode()


def _json(status: HTTPStatus, content: object) -> _Answer:
    return _Answer(status, "application/json", json.dumps(content).encode() + b"\n")


def _text(status: HTTPStatus, text: str) -> _Answer:
    return _Answer(status, "text/plain; charset=utf-8", text.encode() + b"\n")
