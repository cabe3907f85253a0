"""A client that sends any request in any version, and any bytes."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import TypeVar

from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.message import Message

ResponseT = TypeVar("ResponseT", bound=Message)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request_bytes(
    request: Message, version: int, correlation_id: int = 1, client_id: str | None = "test"
) -> bytes:
    """Header and body without the length prefix."""
    api = API_BY_KEY[request.API_KEY]
    out = bytearray(struct.pack(">hhi", api.key, version, correlation_id))
    if client_id is None:
        out += struct.pack(">h", -1)
    else:
        name = client_id.encode()
        out += struct.pack(">h", len(name)) + name
    if version >= api.flexible_from:
        out.append(0)
    request.write(out, version)
    return bytes(out)


class RawClient:
    """Requests may be pipelined: ``send`` several, then ``receive`` the responses in the same order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._last_id = 0
        self._expected: list[tuple[int, int, int]] = []
        """Correlation id, API key and version of the requests without a response."""

    async def call(
        self, request: Message, response_type: type[ResponseT], version: int | None = None
    ) -> ResponseT:
        """``version`` None selects the newest stable version."""
        self.send(request, version)
        return await self.receive(response_type)

    def send(self, request: Message, version: int | None = None) -> None:
        if version is None:
            version = API_BY_KEY[request.API_KEY].max_version
        self._last_id += 1
        self._expected.append((self._last_id, request.API_KEY, version))
        self.writer.write(frame(request_bytes(request, version, self._last_id)))

    async def receive(self, response_type: type[ResponseT]) -> ResponseT:
        correlation_id, api_key, version = self._expected.pop(0)
        api = API_BY_KEY[api_key]
        body = await self.read_frame()
        assert struct.unpack_from(">i", body)[0] == correlation_id
        start = 4
        if version >= api.flexible_from and api.name != "ApiVersions":
            assert body[start] == 0
            start += 1
        response = api.response.from_bytes(body[start:], version)
        assert isinstance(response, response_type)
        return response

    def expect_no_responses(self) -> None:
        """The requests so far have no response (Produce with acks=0)."""
        self._expected.clear()

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(data)

    async def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def read_to_the_end(self) -> bytes:
        """All bytes until the broker closes the connection."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def connected(bootstrap: str) -> AsyncIterator[RawClient]:
    host, _, port = bootstrap.rpartition(":")
    client = RawClient(*await asyncio.open_connection(host, int(port)))
    try:
        yield client
    finally:
        await client.close()
