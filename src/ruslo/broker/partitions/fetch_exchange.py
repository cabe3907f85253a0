"""A row of fetches on one connection, each sent within the very callback that brought the answer before.

The next fetch of a follower is the ack of what came with the last answer, and a producer waits for it: no
task is woken between the two, and no timer is set for each. One timer looks from time to time when the
request under way was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import KafkaError, ProtocolError
from ruslo.net.channel import Connection
from ruslo.protocol.headers import read_response_header
from ruslo.protocol.messages.fetch_request import FetchRequest

NextRequest: TypeAlias = Callable[[bytearray], None]
"""Appends the body of the next request to what it is given."""
TakeAnswer: TypeAlias = Callable[[ReadBuffer, int], bool]
"""Given a frame, and where in it the answer begins; whether to fetch on."""

_TICK_S = 0.001
"""Event loops have timers of whole milliseconds: one for less would be called again at the same time."""


class FetchExchange:
    """``run`` it once. It is the waiter for its own answers (``client.connection.Waiter``)."""

    def __init__(
        self,
        connection: Connection,
        version: int,
        timeout_ms: int,
        next_request: NextRequest,
        take_answer: TakeAnswer,
    ) -> None:
        self._connection = connection
        self._version = version
        self._timeout_ms = timeout_ms
        self._next_request = next_request
        self._take_answer = take_answer
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._sent_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Fetch until an answer says that it is enough; raises what went wrong."""
        self._send()
        self._watch()
        try:
            await self._ended
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _send(self) -> None:
        self._sent_s = self._loop.time()
        self._connection.send_for(self, FetchRequest.API_KEY, self._version, self._next_request)

    def _watch(self) -> None:
        self._timer = None
        due_s = self._sent_s + self._timeout_ms / 1000
        if self._loop.time() + _TICK_S < due_s:
            self._timer = self._loop.call_at(due_s, self._watch)
        else:
            self._connection.give_up_waiting(FetchRequest.API_KEY, self._timeout_ms)

    # -- what the connection says ----------------------------------------------------------------------------

    def done(self) -> bool:
        return self._ended.done()

    def set_result(self, frame: ReadBuffer) -> None:
        try:
            _, pos = read_response_header(frame, 0, FetchRequest.API_KEY, self._version)
            if self._take_answer(frame, pos):
                self._send()
            else:
                self._ended.set_result(None)
        except ProtocolError as error:
            self._ended.set_exception(self._connection.garbled(error))
        except Exception as error:
            # Whatever it is, it belongs to the task that runs this, not to the transport that called.
            if not self._ended.done():
                self._ended.set_exception(error)

    def set_exception(self, error: KafkaError) -> None:
        self._ended.set_exception(error)
