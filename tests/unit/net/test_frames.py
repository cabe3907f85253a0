from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable

import pytest
import uvloop

from ruslo.model.errors import ProtocolError
from ruslo.net.frames import FrameProtocol


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def feed(protocol: FrameProtocol, data: bytes, pieces: list[int]) -> None:
    """Deliver data as an event loop does, in pieces of these sizes, repeatedly."""
    pos = piece = 0
    while pos < len(data):
        buffer = protocol.get_buffer(-1)
        size = min(len(buffer), pieces[piece % len(pieces)], len(data) - pos)
        buffer[:size] = data[pos : pos + size]
        del buffer
        protocol.buffer_updated(size)
        pos += size
        piece += 1


async def split(data: bytes, pieces: list[int]) -> list[bytes]:
    frames: list[bytes] = []
    feed(
        FrameProtocol(1_000_000, lambda frame: frames.append(bytes(frame)), lambda error: None), data, pieces
    )
    return frames


@pytest.mark.parametrize("pieces", [[1], [3, 7], [100], [16 * 1024], [5, 100_000]])
def test_frames_of_all_sizes_in_all_pieces(pieces: list[int]) -> None:
    rng = random.Random(1)
    frames = [rng.randbytes(size) for size in (4, 5, 100, 16_380, 16_384, 16_385, 4, 50_000, 7, 300_000, 8)]
    if pieces == [1]:
        frames = [frame for frame in frames if len(frame) < 20_000]
    data = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    assert asyncio.run(split(data, pieces)) == frames


@pytest.mark.parametrize("size", [-1, 0, 3, 1001, 2**31 - 1])
async def test_invalid_size_closes_the_connection_before_anything_is_allocated(size: int) -> None:
    lost: list[Exception | None] = []
    protocol = FrameProtocol(1000, lambda frame: pytest.fail("there was no frame"), lost.append)
    transport = Transport()
    protocol.connection_made(transport)
    feed(protocol, struct.pack(">i", size), [4])
    assert transport.aborted
    assert len(protocol.get_buffer(-1)) <= 16 * 1024
    protocol.connection_lost(None)
    assert isinstance(lost[0], ProtocolError)
    assert str(size) in str(lost[0])


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
async def test_both_event_loops_deliver_large_frames_and_end_at_garbage(run: Callable[..., None]) -> None:
    sizes = [4, 70_000, 16_384, 1_000_000, 5]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for size in sizes:
            writer.write(struct.pack(">i", size) + bytes(size))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    received: list[int] = []
    lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    await asyncio.get_running_loop().create_connection(
        lambda: FrameProtocol(2_000_000, lambda frame: received.append(len(frame)), lost.set_result),
        host,
        port,
    )
    assert isinstance(await lost, ProtocolError)
    assert received == sizes
    server.close()
    await server.wait_closed()
