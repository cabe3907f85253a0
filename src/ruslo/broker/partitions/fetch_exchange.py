"""Back-to-back fetches on one connection: the callback that receives a response sends the next request.

The next fetch of a follower acknowledges the records of the previous response, and a producer waits for that
ack. So no task is woken between the two, and no timer is set for each request: one timer checks from time to
time when the request in flight was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import KafkaError, ProtocolError
from ruslo.net.channel import Channel
from ruslo.protocol.headers import read_response_header
from ruslo.protocol.messages.fetch_request import FetchRequest

WriteRequest: TypeAlias = Callable[[bytearray], None]
"""Appends the body of the next request to the buffer."""
OnResponse: TypeAlias = Callable[[ReadBuffer, int], bool]
"""Gets a frame and the position of the response body in it; returns whether to fetch again."""

_TIMER_RESOLUTION_S = 0.001
"""Event loops round timers to milliseconds: a shorter one would fire again at the same time."""


@dataclass(slots=True, eq=False)
class FetchExchange:
    """Call ``run`` once. The exchange handles its own responses (``net.channel.ResponseHandler``)."""

    _connection: Channel
    _version: int
    _timeout_ms: int
    _write_request: WriteRequest
    _on_response: OnResponse
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _sent_s: float = 0.0
    _timer: asyncio.TimerHandle | None = None
    _ended: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self._ended = self._loop.create_future()

    async def run(self) -> None:
        """Fetch until ``on_response`` returns False; raises the error that ended the exchange."""
        self._send()
        self._check_timeout()
        try:
            await self._ended
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _send(self) -> None:
        self._sent_s = self._loop.time()
        self._connection.send_request(self, FetchRequest.API_KEY, self._version, self._write_request)

    def _check_timeout(self) -> None:
        self._timer = None
        due_s = self._sent_s + self._timeout_ms / 1000
        if self._loop.time() + _TIMER_RESOLUTION_S < due_s:
            self._timer = self._loop.call_at(due_s, self._check_timeout)
        else:
            self._connection.time_out(FetchRequest.API_KEY, self._timeout_ms)

    # -- called by the connection ----------------------------------------------------------------------------

    def done(self) -> bool:
        return self._ended.done()

    def set_result(self, frame: ReadBuffer) -> None:
        try:
            _, pos = read_response_header(frame, 0, FetchRequest.API_KEY, self._version)
            if self._on_response(frame, pos):
                self._send()
            else:
                self._ended.set_result(None)
        except ProtocolError as error:
            self._ended.set_exception(self._connection.invalid_response(error))
        except Exception as error:
            # Any error belongs to the task that runs the exchange, not to the transport that called.
            if not self._ended.done():
                self._ended.set_exception(error)

    def set_exception(self, error: KafkaError) -> None:
        self._ended.set_exception(error)
