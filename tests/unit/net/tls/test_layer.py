"""TLS connections over real sockets: frames of any size, file ranges, slow readers, hostile peers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, BinaryIO, NamedTuple

import pytest
import uvloop

from ruslo.model.principals import ANONYMOUS, Principal
from ruslo.net.connection import Connection
from ruslo.net.server import ListenerSecurity, Server, ServerLimits
from ruslo.net.tls import layer
from ruslo.net.tls.contexts import client_context
from ruslo.net.tls.listener_tls import ListenerTls
from ruslo.net.tls.settings import ClientAuth
from tests.support.brokers.live_node import until
from tests.support.network.certificates import broker_tls, client_tls

LIMITS = ServerLimits(
    max_frame_bytes=10_000_000, max_connections=100, max_connections_per_ip=100, idle_ms=60_000
)


class FilePart(NamedTuple):
    file: BinaryIO
    position: int
    size: int

    def read(self) -> bytes:
        return os.pread(self.file.fileno(), self.size, self.position)


class Served(NamedTuple):
    port: int
    server: Server
    connections: list[Connection]


@contextlib.asynccontextmanager
async def serving(
    respond: Callable[[Connection, bytes], None], tls: ListenerTls | None = None
) -> AsyncIterator[Served]:
    server = Server(LIMITS)
    connections: list[Connection] = []

    def handle_frame(connection: Connection, buf: bytearray, start: int, end: int) -> bool:
        if connection not in connections:
            connections.append(connection)
        connection.admit("echo")
        respond(connection, bytes(buf[start:end]))
        return True

    port = await server.listen("TLS", "127.0.0.1", 0, ListenerSecurity(tls or broker_tls()))
    await server.start(handle_frame)
    try:
        yield Served(port, server, connections)
    finally:
        await server.close()


def echo(connection: Connection, body: bytes) -> None:
    connection.send(struct.pack(">i", len(body)) + body)


async def connect(
    port: int, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1", port, ssl=context or client_context(client_tls()), server_hostname="localhost"
    )


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bytes:
    writer.write(struct.pack(">i", len(body)) + body)
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)


async def test_frames_of_any_size_are_echoed() -> None:
    async with serving(echo) as served:
        reader, writer = await connect(served.port)
        for size in (0, 1, 100, 16_383, 16_384, 16_385, 70_000, 300_000, 5_000_000, 7):
            body = os.urandom(size)
            assert await exchange(reader, writer, body) == body
        writer.close()
        await until(lambda: not served.server.connections)


async def test_pipelined_frames_are_answered_in_order() -> None:
    async with serving(echo) as served:
        reader, writer = await connect(served.port)
        bodies = [os.urandom(size) for size in (5, 40_000, 1, 0, 200_000, 3)]
        writer.write(b"".join(struct.pack(">i", len(body)) + body for body in bodies))
        for body in bodies:
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            assert await reader.readexactly(size) == body
        writer.close()


async def test_file_ranges_are_encrypted_piece_by_piece() -> None:
    content = os.urandom(3_000_000)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()

        def respond(connection: Connection, body: bytes) -> None:
            part = FilePart(file, 1000, 2_500_000)
            connection.send_all([struct.pack(">i", part.size + 4), b"head", part])

        async with serving(respond) as served:
            reader, writer = await connect(served.port)
            for _ in range(3):
                assert await exchange(reader, writer, b"x") == b"head" + content[1000:2_501_000]
            writer.close()


async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    handled = 0
    with tempfile.TemporaryFile() as file:
        file.write(bytes(1_000_000))
        file.flush()

        def respond(connection: Connection, body: bytes) -> None:
            nonlocal handled
            handled += 1
            connection.send_all([struct.pack(">i", 1_000_000), FilePart(file, 0, 1_000_000)])

        async with serving(respond) as served:
            reader, writer = await connect(served.port)
            try:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                for _ in range(200):
                    writer.write(struct.pack(">i", 1) + b"x")
                await until(lambda: handled > 0)
                await asyncio.sleep(0.5)
                assert handled < 100
                writer.transport.resume_reading()  # type: ignore[attr-defined]
                for _ in range(200):
                    await reader.readexactly(1_000_004)
                assert handled == 200
            finally:
                writer.close()


async def test_the_principal_is_that_of_the_certificate() -> None:
    async with serving(echo, broker_tls(ClientAuth.REQUESTED)) as served:
        reader, writer = await connect(served.port, client_context(client_tls("alice")))
        await exchange(reader, writer, b"x")
        assert served.connections[0].principal == Principal("User", "CN=alice")
        writer.close()
        reader, writer = await connect(served.port)
        await exchange(reader, writer, b"x")
        assert served.connections[1].principal == ANONYMOUS
        writer.close()


async def test_a_client_without_the_required_certificate_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(echo, broker_tls(ClientAuth.REQUIRED)) as served:
        reader, writer = await connect(served.port)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await exchange(reader, writer, b"x")
        assert "ssl.client.auth is required" in caplog.text
        assert not served.connections
        writer.close()


@pytest.mark.parametrize(
    ("sent", "explained"),
    [
        (struct.pack(">ihhih", 14, 18, 3, 1, 4) + b"test", "plain Kafka request"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP request"),
        (b"\xff" * 20, "does not speak TLS"),
    ],
)
async def test_what_is_not_tls_is_explained_and_closed_at_once(
    sent: bytes, explained: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(sent)
        assert await reader.read() == b""
        assert explained in caplog.text
        for _ in range(5):
            again, other = await asyncio.open_connection("127.0.0.1", served.port)
            other.write(sent)
            assert await again.read() == b""
            other.close()
        # One line for the address; the others are counted.
        assert caplog.text.count(explained) == 1
        writer.close()


async def test_a_changed_record_closes_the_connection() -> None:
    async with serving(echo) as served:
        context = client_context(client_tls())
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing, server_side=False, server_hostname="localhost")
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
        writer.write(outgoing.read())
        session.write(struct.pack(">i", 4) + b"text")
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        writer.write(bytes(record))
        await until(lambda: not served.server.connections)
        assert not served.connections
        writer.close()


async def test_a_client_that_never_shakes_hands_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer, "HANDSHAKE_TIMEOUT_S", 0.1)
    async with serving(echo) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as idle:
            await until(lambda: bool(served.server.connections))
            await until(lambda: not served.server.connections)
            idle.settimeout(5)
            assert idle.recv(1) == b""


async def test_a_closed_connection_ends_tls_properly() -> None:
    """The client can tell a complete stream from one that an attacker cut off."""
    async with serving(echo) as served:
        reader, writer = await connect(served.port)
        await exchange(reader, writer, b"x")
        served.connections[0].close()
        assert await reader.read() == b""
        writer.close()


async def test_a_new_certificate_serves_new_connections_and_keeps_the_open_ones() -> None:
    tls = broker_tls()
    async with serving(echo, tls) as served:
        reader, writer = await connect(served.port)
        first = writer.get_extra_info("ssl_object").getpeercert(True)
        from dataclasses import replace

        from tests.support.network.certificates import HOSTS, authority, pem_store

        renewed = replace(tls._settings, key_store=pem_store(authority().issue("broker", HOSTS)))
        assert tls.replace(renewed)
        assert await exchange(reader, writer, b"still open") == b"still open"
        _, other = await connect(served.port)
        assert other.get_extra_info("ssl_object").getpeercert(True) != first
        writer.close()
        other.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_request_that_arrives_with_the_end_of_the_handshake_and_of_the_connection_is_answered(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    def request(port: int) -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = client_context(client_tls()).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", port)) as sock:
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    sock.sendall(outgoing.read())
                    incoming.write(sock.recv(65536))
            session.write(struct.pack(">i", 5) + b"hello")
            sock.sendall(outgoing.read())
            sock.shutdown(socket.SHUT_WR)
            while data := sock.recv(65536):
                incoming.write(data)
            return session.read()

    async def exchange_one() -> None:
        async with serving(echo) as served:
            assert await asyncio.to_thread(request, served.port) == struct.pack(">i", 5) + b"hello"

    run(exchange_one())
