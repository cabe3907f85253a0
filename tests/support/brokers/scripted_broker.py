"""A TCP server that answers requests as a test tells it to: for what no healthy broker would do."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self

from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.headers import read_request_header, write_response_header
from ruslo.protocol.message import Message
from ruslo.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ruslo.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Asked(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    message: Message


Answer = Message | bytes | None
"""A response, raw bytes to send as they are, or None to close the connection."""

Script = Callable[[Asked], "Answer | Awaitable[Answer]"]


def all_versions(limits: dict[int, tuple[int, int]] | None = None) -> ApiVersionsResponse:
    """What a broker of our own release offers; ``limits`` narrows some APIs."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=api.key,
                min_version=(limits or {}).get(api.key, (api.min_version, 0))[0],
                max_version=(limits or {}).get(api.key, (0, api.max_version))[1],
            )
            for api in API_BY_KEY.values()
            if api.max_version >= 0
        ]
    )


class ScriptedBroker:
    """``async with ScriptedBroker(script) as broker``.

    The script raises KeyError for what it leaves to the default answers: those to ApiVersions and Metadata.
    """

    def __init__(self, script: Script | None = None, *, port: int = 0) -> None:
        self.script = script
        self.port = port
        self.asked: list[Asked] = []
        self.connections = 0
        self.topics: dict[str, int] = {}
        """Leaders of partition 0 of each topic, for Metadata."""
        self.nodes: dict[int, int] = {}
        """Ports of the brokers that Metadata names; this one alone if empty."""
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def hang_up(self) -> None:
        """End the connections, and go on listening."""
        for writer in self._writers:
            writer.close()

    async def close(self) -> None:
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    def asked_for(self, api_key: int) -> list[Asked]:
        return [asked for asked in self.asked if asked.api_key == api_key]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header, pos = read_request_header(frame, 0)
                request = API_BY_KEY[header.api_key].request
                message, _ = request.read(frame, pos, min(header.api_version, request.MAX_VERSION))
                asked = Asked(header.api_key, header.api_version, header.correlation_id, message)
                self.asked.append(asked)
                answer = await self._answer(asked)
                if answer is None:
                    break
                writer.write(answer if isinstance(answer, bytes) else encode(asked, answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, asked: Asked) -> Answer:
        if self.script is not None:
            try:
                answer = self.script(asked)
                return await answer if isinstance(answer, Awaitable) else answer
            except KeyError:
                pass
        if asked.api_key == ApiVersionsResponse.API_KEY:
            return all_versions()
        assert asked.api_key == MetadataResponse.API_KEY, f"the script has no answer to {asked}"
        return self._metadata()

    def _metadata(self) -> MetadataResponse:
        nodes = self.nodes or {1: self.port}
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=port)
                for node_id, port in nodes.items()
            ],
            cluster_id="scripted",
            controller_id=min(nodes),
            topics=[
                MetadataResponseTopic(
                    name=name,
                    topic_id=name.encode().ljust(16, b"_")[:16],
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=0, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader]
                        )
                    ],
                )
                for name, leader in self.topics.items()
            ],
        )


def encode(asked: Asked, answer: Message, version: int | None = None) -> bytes:
    """A response frame; ``version`` other than the request's for brokers that misbehave."""
    body = bytearray()
    write_response_header(body, asked.api_key, asked.version, asked.correlation_id)
    answer.write(body, asked.version if version is None else version)
    return struct.pack(">i", len(body)) + bytes(body)
