"""Connections over real sockets: frames, the order of responses, file ranges, hostile and slow peers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
import uvloop

from ruslo.model.errors import ConfigError, ProtocolError
from ruslo.net import server as server_module
from ruslo.net.connection import MAX_PENDING_RESPONSES, Connection
from ruslo.net.pending_response import PendingResponse
from ruslo.net.receive_buffer import INITIAL_BUFFER_BYTES, KEPT_BUFFER_BYTES
from ruslo.net.send_queue import JOINED_RANGE_BYTES
from ruslo.net.server import ListenerSecurity, Server, ServerLimits
from tests.support.brokers.live_node import until
from tests.support.network.ports import free_port

LIMITS = ServerLimits(
    max_frame_bytes=1_000_000, max_connections=100, max_connections_per_ip=100, idle_ms=60_000
)


@dataclass
class Range:
    file: BinaryIO
    position: int
    size: int

    def read(self) -> bytes:
        return os.pread(self.file.fileno(), self.size, self.position)


class Echo:
    """A handler that responds to each frame with the frame itself, unless ``on_frame`` is set."""

    server: Server

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.connections: list[Connection] = []
        self.on_frame: Callable[[Connection, bytes], None] = lambda connection, body: connection.send(
            frame(body)
        )

    def handle_frame(self, connection: Connection, buf: bytearray, start: int, end: int) -> bool:
        """All frames are in one pipeline, except those that begin with ``held``, which are in none."""
        if connection not in self.connections:
            self.connections.append(connection)
        body = bytes(buf[start:end])
        if not connection.admit("" if body.startswith(b"held") else "echo"):
            return False
        self.frames.append(body)
        self.on_frame(connection, body)
        return True


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)


@contextlib.asynccontextmanager
async def serving(echo: Echo, limits: ServerLimits = LIMITS) -> AsyncIterator[int]:
    server = Server(limits)
    echo.server = server
    port = await server.listen("TEST", "127.0.0.1", 0)
    await server.start(echo.handle_frame)
    try:
        yield port
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def client(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def test_frames_split_anywhere_are_handled_in_order() -> None:
    echo = Echo()
    bodies = [os.urandom(size) for size in (0, 1, 7, INITIAL_BUFFER_BYTES, 3, 300_000, 12)]

    async def main() -> None:
        async with serving(echo) as port, client(port) as (reader, writer):
            stream = b"".join(frame(body) for body in bodies)
            for start in range(0, len(stream), 9_973):
                writer.write(stream[start : start + 9_973])
                await writer.drain()
            assert [await read_frame(reader) for _ in bodies] == bodies

    uvloop.run(main())
    assert echo.frames == bodies


async def test_responses_are_sent_in_request_order() -> None:
    echo = Echo()
    parked: list[tuple[PendingResponse, bytes]] = []

    def park_odd(connection: Connection, body: bytes) -> None:
        if body[0] % 2:
            parked.append((connection.defer(), body))
        else:
            connection.send(frame(body))

    echo.on_frame = park_odd
    async with serving(echo) as port, client(port) as (reader, writer):
        writer.write(b"".join(frame(bytes([n])) for n in range(6)))
        assert await read_frame(reader) == b"\x00"
        await until(lambda: len(parked) == 3)
        for reply, body in reversed(parked):
            reply.send((frame(body),))
        assert [await read_frame(reader) for _ in range(5)] == [bytes([n]) for n in range(1, 6)]


async def test_closed_connection_is_freed_with_its_buffers() -> None:
    """Without the garbage collector, which would keep megabytes for each until it runs."""
    echo = Echo()

    def living() -> int:
        return sum(isinstance(each, Connection) for each in gc.get_objects())

    async with serving(echo) as port:
        gc.collect()
        before = living()
        gc.disable()
        try:
            async with client(port) as (reader, writer):
                writer.write(frame(bytes(300_000)))
                assert len(await read_frame(reader)) == 300_000
            await until(lambda: not echo.server.connections)
            echo.connections.clear()
            await until(lambda: living() == before)
        finally:
            gc.enable()


async def test_request_waits_for_the_responses_to_earlier_ones() -> None:
    echo = Echo()
    parked: dict[bytes, PendingResponse] = {}
    echo.on_frame = lambda connection, body: parked.__setitem__(body, connection.defer())
    async with serving(echo) as port, client(port) as (reader, writer), client(port) as other:
        bodies = [b"first", b"second", b"held", b"behind"]
        writer.write(b"".join(frame(body) for body in bodies))
        await until(lambda: echo.frames == bodies[:2])
        for taken, body in ((2, b"second"), (2, b"first"), (3, b"held"), (4, b"behind")):
            await until(lambda body=body: body in parked)  # type: ignore[misc]
            # Another client is served in between; by then the frames sent above would have been handled.
            other[1].write(frame(b"other"))
            await until(lambda: b"other" in parked)
            parked.pop(b"other").send((frame(b"other"),))
            assert await read_frame(other[0]) == b"other"
            assert [each for each in echo.frames if each != b"other"] == bodies[:taken]
            parked.pop(body).send((frame(body),))
        assert [await read_frame(reader) for _ in range(4)] == bodies


def close_client(sock: socket.socket, *, reset: bool) -> None:
    if reset:
        reset_when_closed(sock)
    sock.close()


def reset_when_closed(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("behind", [0, 1, 10, 5_000])
def test_disconnect_is_noticed_whatever_the_client_sent_after_a_waiting_request(
    behind: int, reset: bool
) -> None:
    """5,000 frames exceed the buffer, so the connection is not read when its client disconnects."""
    echo = Echo()
    abandoned: list[bytes] = []

    def wait(connection: Connection, body: bytes) -> None:
        connection.defer().on_abandoned = lambda: abandoned.append(body)

    echo.on_frame = wait

    def sweep() -> bool:
        """Check more often than the server whether all clients are disconnected."""
        for connection in list(echo.server.connections):
            connection.check_peer()
        return not echo.server.connections

    async def main() -> None:
        async with serving(echo) as port:
            sock = socket.create_connection(("127.0.0.1", port))
            sock.settimeout(60)
            sock.sendall(frame(b"held") * (1 + behind))
            await until(lambda: bool(echo.frames))
            close_client(sock, reset=reset)
            await until(sweep)

    uvloop.run(main())
    assert abandoned == echo.frames


def test_requests_sent_before_a_half_close_are_handled_and_get_responses() -> None:
    """The requests wait behind one with an effect and exceed the buffer."""
    echo = Echo()
    parked: list[PendingResponse] = []

    def park_first(connection: Connection, body: bytes) -> None:
        if body == b"held":
            parked.append(connection.defer())
        else:
            connection.send(frame(body))

    echo.on_frame = park_first
    bodies = [b"held", *(bytes([n]) * 1_000 for n in range(100))]

    async def main() -> None:
        async with serving(echo) as port, client(port) as (reader, writer):
            writer.write(b"".join(frame(body) for body in bodies))
            writer.write_eof()
            await until(lambda: bool(parked))
            parked[0].send((frame(b"held"),))
            assert [await read_frame(reader) for _ in bodies] == bodies
            assert await reader.read() == b""

    uvloop.run(main())
    assert echo.frames == bodies


async def test_a_handler_that_fails_behind_a_held_request_ends_the_connection_and_is_not_called_again() -> (
    None
):
    echo = Echo()
    held: asyncio.Queue[PendingResponse] = asyncio.Queue()

    def hold_or_fail(connection: Connection, body: bytes) -> None:
        if body == b"held":
            held.put_nowait(connection.defer())
        else:
            raise RuntimeError("after the append, say")

    echo.on_frame = hold_or_fail
    reports: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    async with serving(echo) as port, client(port) as (reader, writer):
        writer.write(frame(b"held") + frame(b"fails"))
        (await held.get()).send((frame(b"held"),))
        assert await read_frame(reader) == b"held"
        await until(lambda: len(reports) == 1)
        # A frame with an effect must not be handled again when more bytes arrive.
        with contextlib.suppress(ConnectionError):
            writer.write(frame(b"next"))
            assert await reader.read() == b""
    assert isinstance(reports[0]["exception"], RuntimeError)
    assert echo.frames == [b"held", b"fails"]


async def test_a_file_range_is_sent_between_bytes(tmp_path: Path) -> None:
    data = os.urandom(5_000_000)
    (tmp_path / "data").write_bytes(data)
    echo = Echo()
    with (tmp_path / "data").open("rb") as file:
        echo.on_frame = lambda connection, body: connection.send_all(
            (struct.pack(">i", 4_000_002) + b"<", Range(file, 500_000, 4_000_000), b">")
        )
        async with serving(echo) as port, client(port) as (reader, writer):
            writer.write(frame(b"a") + frame(b"b"))
            for _ in range(2):
                assert await read_frame(reader) == b"<" + data[500_000:4_500_000] + b">"


@pytest.mark.parametrize("size", [1, JOINED_RANGE_BYTES, JOINED_RANGE_BYTES + 1])
async def test_ranges_of_any_size_and_bytes_alternate(tmp_path: Path, size: int) -> None:
    data = os.urandom(3 * JOINED_RANGE_BYTES)
    (tmp_path / "data").write_bytes(data)
    echo = Echo()
    with (tmp_path / "data").open("rb") as file:
        response = [
            struct.pack(">i", 3 * (size + 1)),
            *(chunk for at in (5, 6, 7) for chunk in (b"<", Range(file, at, size))),
        ]
        echo.on_frame = lambda connection, body: connection.send_all(response)
        async with serving(echo) as port, client(port) as (reader, writer):
            writer.write(frame(b"a") + frame(b"b"))
            for _ in range(2):
                assert await read_frame(reader) == b"".join(b"<" + data[at : at + size] for at in (5, 6, 7))


@pytest.mark.parametrize("size", [100, JOINED_RANGE_BYTES + 100])
def test_a_range_beyond_the_end_of_its_file_closes_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    (tmp_path / "data").write_bytes(b"short")
    echo = Echo()

    async def main() -> None:
        with (tmp_path / "data").open("rb") as file:
            echo.on_frame = lambda connection, body: connection.send_all((Range(file, 0, size),))
            async with serving(echo) as port, client(port) as (reader, writer):
                writer.write(frame(b"a"))
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                assert echo.connections[0].closed

    uvloop.run(main())
    assert f"{size - 5} bytes before" in caplog.text


@pytest.mark.parametrize("size", [-1, -(2**31), 1_000_001, 2**31 - 1])
def test_invalid_frame_size_closes_before_anything_is_allocated(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    echo = Echo()

    async def main() -> None:
        async with (
            serving(echo) as port,
            client(port) as (reader, writer),
            client(port) as (other, other_writer),
        ):
            writer.write(struct.pack(">i", size) + b"xxxx")
            assert await reader.read() == b""
            other_writer.write(frame(b"still here"))
            assert await read_frame(other) == b"still here"

    uvloop.run(main())
    assert str(size) in caplog.text
    assert "socket.request.max.bytes" in caplog.text


def test_announced_frame_size_alone_allocates_no_memory() -> None:
    echo = Echo()

    async def main() -> None:
        async with serving(echo) as port, client(port) as (_, writer):
            writer.write(struct.pack(">i", 1_000_000) + b"only this")
            await until(lambda: bool(echo.server.connections))
            await asyncio.sleep(0.05)
            (connection,) = echo.server.connections
            assert len(connection.get_buffer(-1)) <= INITIAL_BUFFER_BYTES

    uvloop.run(main())
    assert echo.frames == []


def test_a_protocol_error_closes_after_earlier_responses_are_sent(caplog: pytest.LogCaptureFixture) -> None:
    echo = Echo()

    def fail_on_second(connection: Connection, body: bytes) -> None:
        if body == b"bad":
            raise ProtocolError("not a request")
        connection.send(frame(body))

    echo.on_frame = fail_on_second

    async def main() -> None:
        async with serving(echo) as port, client(port) as (reader, writer):
            writer.write(frame(b"good") + frame(b"bad") + frame(b"never seen"))
            assert await read_frame(reader) == b"good"
            assert await reader.read() == b""

    uvloop.run(main())
    assert echo.frames == [b"good", b"bad"]
    assert caplog.text.count("not a request") == 1


async def test_too_many_pending_requests_pause_reading() -> None:
    echo = Echo()
    parked: list[PendingResponse] = []
    echo.on_frame = lambda connection, body: parked.append(connection.defer())
    async with serving(echo) as port, client(port) as (reader, writer):
        count = MAX_PENDING_RESPONSES * 3
        writer.write(b"".join(frame(bytes([n])) for n in range(count)))
        await until(lambda: len(parked) >= MAX_PENDING_RESPONSES)
        await asyncio.sleep(0.1)
        assert len(parked) == MAX_PENDING_RESPONSES
        sent = 0
        while sent < count:
            parked[sent].send((frame(bytes([sent])),))
            assert await read_frame(reader) == bytes([sent])
            sent += 1


def test_a_client_that_does_not_read_is_not_read_from(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(8_000_000))
    echo = Echo()

    async def main() -> None:
        with (tmp_path / "data").open("rb") as file:
            head = struct.pack(">i", 8_000_000)
            echo.on_frame = lambda connection, body: connection.send_all((head, Range(file, 0, 8_000_000)))
            async with serving(echo) as port:
                # A small window, so that the kernel cannot buffer the responses.
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
                for _ in range(20):
                    writer.write(frame(b"more"))
                    await writer.drain()
                    await asyncio.sleep(0.01)
                assert len(echo.frames) < 10
                for _ in range(20):
                    assert len(await read_frame(reader)) == 8_000_000
                writer.close()

    uvloop.run(main())
    assert len(echo.frames) == 20


def test_many_small_requests_with_large_responses_are_handled_a_few_at_a_time() -> None:
    echo = Echo()
    response = frame(bytes(100_000))
    echo.on_frame = lambda connection, body: connection.send(response)

    async def main() -> None:
        async with serving(echo) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            # A large frame first, so that the receive buffer can hold all small ones at once.
            writer.write(frame(bytes(900_000)) + frame(b"small") * 2000)
            await writer.drain()
            await asyncio.sleep(0.2)
            seen = len(echo.frames)
            assert seen < 500, "the client reads no responses, so most of its requests wait"
            for _ in range(2001):
                assert len(await read_frame(reader)) == 100_000
            writer.close()

    uvloop.run(main())
    assert len(echo.frames) == 2001


def test_frames_of_a_closing_connection_are_not_handled(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(20_000_000))
    echo = Echo()

    async def main() -> None:
        with (tmp_path / "data").open("rb") as file:

            def on_frame(connection: Connection, body: bytes) -> None:
                if body == b"bad":
                    raise ProtocolError("not a request")
                connection.send_all((struct.pack(">i", 20_000_000), Range(file, 0, 20_000_000)))

            echo.on_frame = on_frame
            async with serving(echo) as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
                writer.write(frame(b"good") + frame(b"bad"))
                await asyncio.sleep(0.05)
                writer.write(frame(b"after the end"))
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()

    uvloop.run(main())
    assert echo.frames in ([b"good"], [b"good", b"bad"])


async def test_a_waiting_request_is_abandoned_when_its_client_disconnects() -> None:
    echo = Echo()
    reported: list[bytes] = []

    def park(connection: Connection, body: bytes) -> None:
        reply = connection.defer()
        reply.on_abandoned = lambda: reported.append(body)

    echo.on_frame = park
    async with serving(echo) as port:
        async with client(port) as (_, writer):
            writer.write(frame(b"one") + frame(b"two"))
            await until(lambda: len(echo.frames) == 2)
            assert reported == []
        await until(lambda: reported == [b"one", b"two"])


def test_limits_on_connections(caplog: pytest.LogCaptureFixture) -> None:
    echo = Echo()
    limits = ServerLimits(max_frame_bytes=100, max_connections=100, max_connections_per_ip=2, idle_ms=60_000)

    async def main() -> None:
        async with serving(echo, limits) as port, client(port) as (one, one_writer), client(port):
            async with client(port) as (rejected, _):
                with contextlib.suppress(ConnectionError):
                    assert await rejected.read() == b""
            one_writer.write(frame(b"still here"))
            assert await read_frame(one) == b"still here"

    uvloop.run(main())
    assert "max.connections.per.ip=2" in caplog.text


async def test_other_brokers_can_connect_when_clients_hold_all_connections() -> None:
    echo = Echo()
    limits = ServerLimits(
        max_frame_bytes=100,
        max_connections=2,
        max_connections_per_ip=100,
        idle_ms=60_000,
        protected_listener="BROKERS",
    )
    async with serving(echo, limits) as port, client(port) as one, client(port) as two:
        for reader, writer in (one, two):
            writer.write(frame(b"client"))
            assert await read_frame(reader) == b"client"
        for_brokers = await echo.server.listen("BROKERS", "127.0.0.1", 0)
        await echo.server.start(echo.handle_frame)
        async with client(for_brokers) as (reader, writer), client(port) as (rejected, _):
            writer.write(frame(b"follower"))
            assert await read_frame(reader) == b"follower"
            with contextlib.suppress(ConnectionError):
                assert await rejected.read() == b""
            # A client connection was closed instead.
            await until(lambda: len(echo.server.connections) == 2)
            names = sorted(each.listener_name for each in echo.server.connections)
            assert names == ["BROKERS", "TEST"]


async def test_idle_connections_are_closed() -> None:
    echo = Echo()
    limits = ServerLimits(max_frame_bytes=100, max_connections=9, max_connections_per_ip=9, idle_ms=200)
    async with serving(echo, limits) as port, client(port) as (reader, _):
        assert await asyncio.wait_for(reader.read(), 60) == b""
        assert not echo.server.connections


async def test_a_client_that_never_finishes_its_log_in_is_disconnected() -> None:
    """Even if it sends a byte now and then, and although idle connections stay open."""
    echo = Echo()
    limits = ServerLimits(max_frame_bytes=100, max_connections=9, max_connections_per_ip=9, idle_ms=-1)
    async with serving(echo, limits):
        port = await echo.server.listen("SASL", "127.0.0.1", 0, ListenerSecurity(mechanisms={}))
        await echo.server.start(echo.handle_frame, echo.handle_frame)
        async with client(port) as (reader, writer):
            for sent in range(1, 3):
                writer.write(b"\0")
                await until(partial(_has_received, echo, sent))
                echo.server._sweep()
            assert await reader.read() == b""


def _has_received(echo: Echo, count: int) -> bool:
    return [each._received.end for each in echo.server.connections] == [count]


async def test_a_client_that_reads_nothing_is_disconnected_like_an_idle_one(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(20_000_000))
    echo = Echo()
    limits = ServerLimits(max_frame_bytes=100, max_connections=9, max_connections_per_ip=9, idle_ms=200)
    with (tmp_path / "data").open("rb") as file:
        echo.on_frame = lambda connection, body: connection.send_all((Range(file, 0, 20_000_000),))
        async with serving(echo, limits) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(frame(b"more"))
            async with asyncio.timeout(60):
                await until(lambda: bool(echo.frames))
                await until(lambda: not echo.server.connections)
            writer.close()


async def test_responses_are_sent_before_the_server_closes() -> None:
    echo = Echo()
    response = frame(bytes(30_000_000))
    echo.on_frame = lambda connection, body: connection.send(response)
    async with serving(echo) as port, client(port) as (reader, writer):
        writer.write(frame(b"more"))
        await until(lambda: bool(echo.frames))
        closing = asyncio.create_task(echo.server.close())
        assert len(await read_frame(reader)) == 30_000_000
        await closing
        assert not echo.server.connections


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
async def test_connection_that_was_accepted_before_the_server_closed_is_closed_too() -> None:
    echo = Echo()
    async with serving(echo):
        pass
    near, far = socket.socketpair()
    with far:
        far.sendall(frame(b"late"))
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Connection(echo.server, "TEST", echo.server.request_memory), near
        )
        await until(lambda: not echo.server.connections)
        far.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert far.recv(1) == b""
    assert echo.frames == []


async def test_wildcard_of_ipv6_includes_ipv4() -> None:
    echo = Echo()
    server = Server(LIMITS)
    port = await server.listen("TEST", "::", free_port())
    await server.start(echo.handle_frame)
    try:
        for host in ("::1", "127.0.0.1"):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(frame(host.encode()))
            assert await read_frame(reader) == host.encode()
            writer.close()
            await writer.wait_closed()
    finally:
        await server.close()


async def test_a_port_in_use_is_explained() -> None:
    async with serving(Echo()) as port:
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: another process listens"):
            await Server(LIMITS).listen("TEST", "127.0.0.1", port)


async def test_warnings_of_an_address_are_counted_until_the_interval_ends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "WARNING_INTERVAL_S", 0.0)
    echo = Echo()
    async with serving(echo) as port:
        for _ in range(3):
            async with client(port) as (reader, writer):
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                assert await reader.read() == b""
        assert caplog.text.count("an HTTP request") == 1
        echo.server._sweep()
        assert "2 more connections from 127.0.0.1 were refused or closed" in caplog.text


class TestRequestMemory:
    LARGE = frame(bytes(3_000_000))
    LIMITS = ServerLimits(
        max_frame_bytes=200_000_000,
        max_connections=100,
        max_connections_per_ip=100,
        idle_ms=60_000,
        max_request_bytes=3_000_000,
    )

    def echo(self) -> Echo:
        echo = Echo()
        echo.on_frame = lambda connection, body: connection.send(frame(b"ok"))
        return echo

    async def test_a_large_frame_waits_until_another_one_has_been_handled(self) -> None:
        echo = self.echo()
        async with (
            serving(echo, self.LIMITS) as port,
            client(port) as (first_reader, first),
            client(port) as (second_reader, second),
            client(port) as (third_reader, third),
        ):
            memory = echo.server.request_memory
            first.write(self.LARGE[:-1])
            await until(lambda: memory.taken_bytes > 0)
            second.write(self.LARGE)
            await until(lambda: memory.is_short)
            assert memory.taken_bytes == len(self.LARGE)
            third.write(frame(b"small"))
            assert await read_frame(third_reader) == b"ok"
            first.write(self.LARGE[-1:])
            assert await read_frame(first_reader) == b"ok"
            assert await read_frame(second_reader) == b"ok"
            assert memory.taken_bytes == 0
            assert not memory.is_short

    async def test_closed_connection_releases_its_memory(self) -> None:
        echo = self.echo()
        async with (
            serving(echo, self.LIMITS) as port,
            client(port) as (_, first),
            client(port) as (_, second),
            client(port) as (reader, third),
        ):
            memory = echo.server.request_memory
            first.write(self.LARGE[:-1])
            await until(lambda: memory.taken_bytes > 0)
            second.write(self.LARGE[:-1])
            await until(lambda: memory.is_short)
            third.write(self.LARGE)
            # The server does not read from the second client, so it notices the end when it reads again.
            reset_when_closed(second.get_extra_info("socket"))
            second.transport.abort()
            first.close()
            assert await read_frame(reader) == b"ok"
            assert memory.taken_bytes == 0

    async def test_stalled_frame_is_dropped_when_others_wait(self) -> None:
        echo = self.echo()
        async with (
            serving(echo, replace(self.LIMITS, idle_ms=500)) as port,
            client(port) as (first_reader, first),
            client(port) as (reader, second),
        ):
            memory = echo.server.request_memory
            first.write(self.LARGE[:-1])
            await until(lambda: memory.taken_bytes > 0)
            second.write(self.LARGE)
            assert await read_frame(reader) == b"ok"
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await read_frame(first_reader)

    async def test_the_buffer_of_a_large_frame_is_freed_with_it(self) -> None:
        echo = self.echo()
        async with serving(echo, self.LIMITS) as port, client(port) as (reader, writer):
            writer.write(frame(bytes(20_000_000)) + frame(bytes(5_000_000)) + frame(b"small"))
            for _ in range(3):
                assert await read_frame(reader) == b"ok"
            assert echo.connections[0]._received.capacity <= KEPT_BUFFER_BYTES
            assert echo.server.request_memory.taken_bytes == 0
