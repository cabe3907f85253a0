"""The console's server and clients that are not browsers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ruslo.console import connection
from ruslo.console.app import build_app
from ruslo.console.guard import Guard
from ruslo.console.serving import bind, server_config
from ruslo.console.sessions import Sessions
from ruslo.console.settings import ConsoleSettings

HANGS_S = 30
"""The time after which a test fails."""
SETTINGS = ConsoleSettings("127.0.0.1:1", password="sesame")


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextlib.asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[int]:
    """Run a server with the configuration of `ruslo console`; yields its port."""
    listener = bind("127.0.0.1", 0)
    server = Server(server_config(app))
    running = asyncio.create_task(server.serve([listener]))
    await server.ready.wait()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await running


def run_scenario(app: ASGIApp, scenario: Callable[[int], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(HANGS_S), served(app) as port:
            await scenario(port)

    asyncio.run(run())


async def exchange(port: int, request: bytes) -> bytes:
    """Return all bytes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def http_only(app: ASGIApp) -> ASGIApp:
    """An application whose startup and shutdown do nothing."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await app(scope, receive, send)

    return call


def guarded(app: ASGIApp) -> ASGIApp:
    return Guard(http_only(app), SETTINGS, Sessions(SETTINGS.password))


async def pages(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("a page\n")(scope, receive, send)


GUARDED = guarded(pages)

HOSTS = [
    "localhost/login?",
    "localhost/login#",
    "localhost/static/?",
    "localhost:80/login?",
    "127.0.0.1/alive?",
    "[::1]/login?",
    "[::1]:8090/login#x",
    "evil.example/login?",
    "evil@localhost",
    "localhost/login?@localhost",
    "evil.example",
    "[::1",
    "[::1]evil.example",
    "",
    "localhost\r\nHost: localhost/login?",
    "localhost\r\nHost: localhost",
    "localhost\r\nX-Forwarded-Host: localhost/login?",
    "localhost\r\nX-Original-URL: /login",
    "localhost",
    "[::1]:8090",
]
TARGETS = [
    "/topics",
    "http://localhost/login",
    "http://evil.example/topics",
    "//localhost/login",
    "/login/../topics",
    "/login%2f..%2ftopics",
    "/topics?/login",
    "/topics%3f/login",
    "/static/../topics",
    "/static/%2e%2e/topics",
    "localhost:80",
    "*",
]


def test_no_host_and_no_target_bypasses_the_password() -> None:
    async def scenario(port: int) -> None:
        for host in HOSTS:
            for target in TARGETS:
                for method in ("GET", "POST"):
                    response = await exchange(
                        port,
                        f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
                        "Content-Length: 0\r\n\r\n".encode(),
                    )
                    status = int(response.split(b" ", 2)[1])
                    assert status in (400, 401, 403, 404, 405, 421), (method, target, host, response)

    run_scenario(build_app(SETTINGS), scenario)


def test_a_request_without_a_host_is_rejected() -> None:
    async def scenario(port: int) -> None:
        assert b" 421 " in await exchange(port, b"GET /login HTTP/1.0\r\n\r\n")
        assert b" 400 " in await exchange(port, b"GET /login HTTP/1.1\r\n\r\n")

    run_scenario(GUARDED, scenario)


HALF_SENT = {
    "nothing": b"",
    "half a line": b"GET /log",
    "half the headers": b"GET /login HTTP/1.1\r\nHost: localhost\r\n",
    "half a body": b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nform",
    "half a chunk": b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nform",
    "half of the second request": b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\nGET /",
    "a body that is not read": b"GET /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nform",
}


@pytest.mark.parametrize("sent", HALF_SENT.values(), ids=HALF_SENT.keys())
def test_an_incomplete_request_times_out(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for timeout in ("HEADERS_TIMEOUT_S", "BODY_TIMEOUT_S", "UNREAD_BODY_TIMEOUT_S"):
        monkeypatch.setattr(connection, timeout, 0.01)

    async def scenario(port: int) -> None:
        await exchange(port, sent)

    run_scenario(GUARDED, scenario)


def test_a_client_that_sends_too_much_gets_a_response() -> None:
    """The server discards the rest of the form: a closed connection would lose the response."""

    async def scenario(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b"password=" + b"x" * 3_000_000
        writer.write(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        assert b" 413 " in await reader.readline()
        await writer.drain()
        writer.close()

    run_scenario(GUARDED, scenario)


def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WRITE_TIMEOUT_S", 0.01)
    lost = asyncio.Event()

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        body = b"x" * 1024 * 1024
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        lost.set()

    async def scenario(port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await lost.wait()
        writer.close()

    run_scenario(guarded(large), scenario)


def test_the_oldest_waiting_connection_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 3)

    async def scenario(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        request = b"GET /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        for number in range(3):
            assert b"a page" in await exchange(port, request)
            if number == 0:
                with contextlib.suppress(ConnectionResetError):
                    assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.close()

    run_scenario(GUARDED, scenario)


def test_connections_with_a_request_in_progress_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 2)
    both_requested, release = asyncio.Barrier(3), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await both_requested.wait()
        await release.wait()
        await pages(scope, receive, send)

    async def scenario(port: int) -> None:
        request = b"GET /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        requests = [asyncio.create_task(exchange(port, request)) for _ in range(2)]
        await both_requested.wait()
        assert await exchange(port, b"") == b"", "closed at once"
        release.set()
        assert all(b"a page" in response for response in await asyncio.gather(*requests))

    run_scenario(guarded(slow), scenario)
