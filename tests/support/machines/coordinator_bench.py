"""The common part of benches for coordinator shards: requests, responses, and a clock that tests advance.

Everything passes through the codecs: requests and responses are encoded and decoded in their version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Any, TypeVar

from ruslo.machines.machine import Instant, Machine, Reply, Requested, TimerFired
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.message import Message

WALL_MS = 1_700_000_000_000
"""The wall clock time at monotonic zero."""

MessageT = TypeVar("MessageT", bound=Message)


class CoordinatorBench(ABC):
    shard: Machine[Any, Any, Any, Any]

    def __init__(self, error_response: Callable[[Message, int, ErrorCode], Message]) -> None:
        self.now_ms = 0
        self.wall_shift_ms = 0
        """The change of the wall clock relative to the monotonic clock."""
        self.responses: dict[Hashable, Message] = {}
        self.append_error: ErrorCode | None = None
        """The next append fails with this error."""
        self.commit_error: ErrorCode | None = None
        """The next append is written, but not committed in time, and fails with this error."""
        self._error_response = error_response
        self._requests: dict[Hashable, tuple[Message, int]] = {}
        self._tokens = count(1)

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms + self.wall_shift_ms

    @property
    def pending_requests(self) -> list[Message]:
        return [request for request, _ in self._requests.values()]

    def response(self, token: Hashable, response: type[MessageT]) -> MessageT:
        message = self.responses.pop(token)
        assert isinstance(message, response)
        return message

    def is_parked(self, token: Hashable) -> bool:
        return token not in self.responses

    def advance(self, duration_ms: int) -> None:
        """Advance the clock and fire every timer exactly at its deadline."""
        end_ms = self.now_ms + duration_ms
        while True:
            deadline_ms = self.shard.deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.run(TimerFired())
        self.now_ms = end_ms

    def run(self, event: Any) -> None:
        self._execute(self.shard.handle(event, Instant(self.now_ms, self.wall_ms)))

    @abstractmethod
    def _execute(self, outcome: Any) -> None: ...

    def _send(self, request: Message, version: int | None, info: Callable[[int], object]) -> int:
        if version is None:
            version = API_BY_KEY[request.API_KEY].max_version
        request = type(request).from_bytes(request.to_bytes(version), version)
        token = next(self._tokens)
        self._requests[token] = (request, version)
        self.run(Requested(token, request, info(version)))
        return token

    def _release(self, replies: Iterable[Reply[Message | KafkaError]]) -> None:
        for token, message in replies:
            assert token not in self.responses, f"two responses to {token}"
            request, version = self._requests.pop(token)
            if isinstance(message, KafkaError):
                message = self._error_response(request, version, message.code)
            self.responses[token] = type(message).from_bytes(message.to_bytes(version), version)
