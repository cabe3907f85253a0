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
    __slots__ = ("_refusal", "api_version", "future", "request")

    def __init__(self, request: Message, api_version: int, refusal: Refusal) -> None:
        self.request = request
        self.api_version = api_version
        self._refusal = refusal
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def answer(self, answer: Message | KafkaError) -> None:
        """An error alone becomes the answer that this API has for it."""
        if self.future.done():
            # Its client has gone, and the task that would have passed the answer on with it.
            return
        if isinstance(answer, KafkaError):
            message, answer = answer.message, self._refusal(self.request, self.api_version, answer.code)
            if message is not None and hasattr(answer, "error_message"):
                answer.error_message = message
        self.future.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Our own fault: dispatch logs it and tells the client so."""
        if not self.future.done():
            self.future.set_exception(error)
