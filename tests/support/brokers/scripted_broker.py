"""A TCP server whose responses a test scripts, for behaviour that no healthy broker has."""

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


class ReceivedRequest(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    message: Message


ScriptedResponse = Message | bytes | None
"""A response, raw bytes to send as they are, or None to close the connection."""

Script = Callable[[ReceivedRequest], "ScriptedResponse | Awaitable[ScriptedResponse]"]


def all_versions(limits: dict[int, tuple[int, int]] | None = None) -> ApiVersionsResponse:
    """The versions of this release; ``limits`` narrows those of some APIs."""
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

    The script raises KeyError to get the default response to ApiVersions or Metadata.
    """

    def __init__(self, script: Script | None = None, *, port: int = 0) -> None:
        self.script = script
        self.port = port
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        self.topics: dict[str, int] = {}
        """Leaders of partition 0 of each topic, for Metadata."""
        self.nodes: dict[int, int] = {}
        """Ports of the brokers in Metadata by id; only this broker if empty."""
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
        """Close the connections, but keep listening."""
        for writer in self._writers:
            writer.close()

    async def close(self) -> None:
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    def requests_of(self, api_key: int) -> list[ReceivedRequest]:
        return [received for received in self.requests if received.api_key == api_key]

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
                received = ReceivedRequest(header.api_key, header.api_version, header.correlation_id, message)
                self.requests.append(received)
                response = await self._respond(received)
                if response is None:
                    break
                writer.write(response if isinstance(response, bytes) else encode(received, response))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _respond(self, received: ReceivedRequest) -> ScriptedResponse:
        if self.script is not None:
            try:
                response = self.script(received)
                return await response if isinstance(response, Awaitable) else response
            except KeyError:
                pass
        if received.api_key == ApiVersionsResponse.API_KEY:
            return all_versions()
        assert received.api_key == MetadataResponse.API_KEY, f"the script has no response to {received}"
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


def encode(received: ReceivedRequest, response: Message, version: int | None = None) -> bytes:
    """A response frame; ``version`` may differ from the request's, for misbehaving brokers."""
    body = bytearray()
    write_response_header(body, received.api_key, received.version, received.correlation_id)
    response.write(body, received.version if version is None else version)
    return struct.pack(">i", len(body)) + bytes(body)
