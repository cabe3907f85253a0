"""A request that a shard is handling: the token that its machine returns with the reply."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message


class ErrorResponse(Protocol):
    def __call__(self, request: Message, api_version: int, code: ErrorCode) -> Message:
        """The response that contains only ``code``."""
        ...


class PendingRequest:
    __slots__ = ("_error_response", "_future", "_result", "api_version", "request")

    def __init__(self, request: Message, api_version: int, error_response: ErrorResponse) -> None:
        self.request = request
        self.api_version = api_version
        self._error_response = error_response
        self._result: Message | Exception | None = None
        self._future: asyncio.Future[Message] | None = None

    @property
    def promise(self) -> Message | asyncio.Future[Message]:
        """The response if there is one already, else its future."""
        if isinstance(self._result, Message):
            return self._result
        self._future = asyncio.get_running_loop().create_future()
        if self._result is not None:
            self._future.set_exception(self._result)
        return self._future

    def respond(self, response: Message | KafkaError) -> None:
        """Complete the request; a KafkaError becomes the error response of its API."""
        if self._result is not None or (self._future is not None and self._future.done()):
            # The client has disconnected, and its future is cancelled.
            return
        if isinstance(response, KafkaError):
            message = response.message
            response = self._error_response(self.request, self.api_version, response.code)
            if message is not None and hasattr(response, "error_message"):
                response.error_message = message
        self._result = response
        if self._future is not None:
            self._future.set_result(response)

    def fail(self, error: Exception) -> None:
        """Complete the request with a defect of this broker; dispatch logs it."""
        if self._result is None:
            self._result = error
            if self._future is not None and not self._future.done():
                self._future.set_exception(error)
