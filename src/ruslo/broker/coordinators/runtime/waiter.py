"""A request on its way through a shard: the token that the machine hands back with the answer."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message


class Refusal(Protocol):
    def __call__(self, request: Message, api_version: int, code: ErrorCode) -> Message:
        """The answer that says nothing but ``code``."""
        ...


class Waiter:
    __slots__ = ("_future", "_refusal", "_result", "api_version", "request")

    def __init__(self, request: Message, api_version: int, refusal: Refusal) -> None:
        self.request = request
        self.api_version = api_version
        self._refusal = refusal
        self._result: Message | Exception | None = None
        self._future: asyncio.Future[Message] | None = None

    @property
    def future(self) -> asyncio.Future[Message]:
        """Done already if it has been answered."""
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
            if isinstance(self._result, Exception):
                self._future.set_exception(self._result)
            elif self._result is not None:
                self._future.set_result(self._result)
        return self._future

    @property
    def promise(self) -> Message | asyncio.Future[Message]:
        """The answer if there is one, else where it will be."""
        return self._result if isinstance(self._result, Message) else self.future

    def answer(self, answer: Message | KafkaError) -> None:
        """An error alone becomes the answer that this API has for it."""
        if self._result is not None or (self._future is not None and self._future.done()):
            # Its client has gone, and the task that would have passed the answer on with it.
            return
        if isinstance(answer, KafkaError):
            message, answer = answer.message, self._refusal(self.request, self.api_version, answer.code)
            if message is not None and hasattr(answer, "error_message"):
                answer.error_message = message
        self._result = answer
        if self._future is not None:
            self._future.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Our own fault: dispatch logs it and tells the client so."""
        if self._result is None:
            self._result = error
            if self._future is not None and not self._future.done():
                self._future.set_exception(error)
