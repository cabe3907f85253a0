"""The interface to the active controller for the broker's own requests."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ruslo.protocol.message import Message


class ControllerChannel(Protocol):
    """The path to the active controller: the driver in this process, or a connection to another node."""

    def submit(self, request: Message, *, timeout_ms: int = 0) -> asyncio.Future[Message]:
        """Raises KafkaError through the future."""
        ...
