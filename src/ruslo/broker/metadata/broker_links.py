"""Connections to the other brokers, for requests between coordinators and leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ruslo.broker.scheduling.background_tasks import BackgroundTasks, cancel_all
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.protocol.message import Message

MessageT = TypeVar("MessageT", bound=Message)


class BrokerLinks:
    """One connection to each broker, opened with the first request; requests on it are pipelined."""

    def __init__(self, address: Callable[[int], tuple[str, int] | None], settings: ChannelSettings) -> None:
        self._address = address
        self._settings = settings
        self._open: dict[int, asyncio.Task[Channel]] = {}
        self._tasks = BackgroundTasks()

    def request(self, broker_id: int, message: Message, response: type[MessageT]) -> asyncio.Future[Message]:
        """The request uses the newest version that both support. Fails with KafkaError if the broker is
        unreachable."""
        return self._tasks.start(self._exchange(broker_id, message, response))

    async def stop(self) -> None:
        await cancel_all(*self._tasks, *self._open.values())
        opened = await asyncio.gather(*self._open.values(), return_exceptions=True)
        for connection in opened:
            if isinstance(connection, Channel):
                await connection.close()

    async def _exchange(self, broker_id: int, message: Message, response: type[MessageT]) -> Message:
        connection = await self._connected(broker_id)
        return await connection.request(message, response)

    async def _connected(self, broker_id: int) -> Channel:
        opening = self._open.get(broker_id)
        if opening is not None and opening.done() and (_failed(opening) or opening.result().closed):
            opening = None
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._connect(broker_id))
            self._open[broker_id] = opening
        # A caller that gives up must not cancel the connection for the others.
        return await asyncio.shield(opening)

    async def _connect(self, broker_id: int) -> Channel:
        address = self._address(broker_id)
        if address is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} is not registered")
        return await Channel.open(*address, self._settings)


def _failed(task: asyncio.Task[Channel]) -> bool:
    return task.cancelled() or task.exception() is not None
