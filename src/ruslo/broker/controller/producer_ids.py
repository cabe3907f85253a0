"""Producer ids for this broker's clients, from blocks that the controller allocates (KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ruslo.broker.controller.controller_channel import ControllerChannel
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ruslo.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

_PREFETCH_THRESHOLD = 100
"""The next block is requested when fewer ids are left."""


class ProducerIds:
    def __init__(
        self, controller: ControllerChannel, *, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._current = range(0)
        self._next = range(0)
        self._request: asyncio.Task[None] | None = None

    async def generate(self) -> int:
        """A new id. Raises KafkaError if the controller allocates no block."""
        while (producer_id := self.take()) is None:
            await asyncio.shield(self._request_block())
        return producer_id

    def take(self) -> int | None:
        """A new id of the current block, if it has one."""
        if not self._current:
            self._current, self._next = self._next, range(0)
            if not self._current:
                return None
        producer_id, self._current = self._current[0], self._current[1:]
        if len(self._current) < _PREFETCH_THRESHOLD and not self._next:
            self._request_block()
        return producer_id

    async def stop(self) -> None:
        await cancel_all(self._request)

    def _request_block(self) -> asyncio.Task[None]:
        """Concurrent callers share one request."""
        if self._request is None:
            self._request = asyncio.create_task(self._fetch_block())
            self._request.add_done_callback(self._on_block)
        return self._request

    def _on_block(self, request: asyncio.Task[None]) -> None:
        self._request = None
        if not request.cancelled():
            # Waiting callers get the error; the next caller requests again.
            request.exception()

    async def _fetch_block(self) -> None:
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        response = await self._controller.submit(request)
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), "The controller allocated no producer ids")
        first = response.producer_id_start
        self._next = range(first, first + response.producer_id_len)
