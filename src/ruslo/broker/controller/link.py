"""A connection to the active controller, reopened when that changes."""

from __future__ import annotations

import asyncio

from ruslo.machines.raft.voters import Endpoint
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.net.channel_security import UNPROTECTED, ChannelSecurity
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.message import Message


class ControllerLink:
    def __init__(
        self, *, client_id: str, connect_timeout_ms: int, security: ChannelSecurity = UNPROTECTED
    ) -> None:
        self._settings = ChannelSettings(
            client_id=client_id, connect_timeout_ms=connect_timeout_ms, security=security
        )
        self._connection: Channel | None = None
        self._opening = asyncio.Lock()

    async def request(self, endpoint: Endpoint, message: Message, *, timeout_ms: int) -> Message:
        """Raises KafkaError if there is no response."""
        connection = await self._to(endpoint)
        response = API_BY_KEY[message.API_KEY].response
        try:
            return await connection.request(message, response, timeout_ms=timeout_ms)
        except asyncio.CancelledError:
            # The caller has given up, perhaps because the network is down. TCP retransmits ever less often:
            # once the network is back, requests behind the lost bytes would wait as long again as it was
            # down.
            connection.drop()
            raise

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _to(self, endpoint: Endpoint) -> Channel:
        async with self._opening:
            connection = self._connection
            if connection is not None and not connection.closed:
                if (connection.host, connection.port) == (endpoint.host, endpoint.port):
                    return connection
                connection.drop()
            self._connection = await Channel.open(endpoint.host, endpoint.port, self._settings)
            return self._connection
