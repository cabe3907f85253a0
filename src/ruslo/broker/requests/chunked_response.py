"""Responses that a handler builds without a generated message, and responses that wait without an effect."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from ruslo.net.send_queue import Chunk
from ruslo.protocol.message import Message


class ChunkedResponse(ABC):
    """A response whose records stay in their files until the socket takes them."""

    __slots__ = ()
    throttle_time_ms: int

    @abstractmethod
    def encode(self, out: bytearray, version: int) -> tuple[Sequence[Chunk], int]:
        """The chunks of the frame, of which ``out`` is the first, and their total size."""

    @abstractmethod
    def error_codes(self) -> Iterator[int]:
        """Every error code in it that is not NONE."""


class WaitingResponse:
    """A response that may take long; a client that disconnects abandons it."""

    __slots__ = ("abandon", "future")

    def __init__(
        self, future: asyncio.Future[Message | ChunkedResponse], abandon: Callable[[], None]
    ) -> None:
        self.future = future
        self.abandon = abandon

    def __await__(self) -> Generator[Any, None, Message | ChunkedResponse]:
        return self.future.__await__()
