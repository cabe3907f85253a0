"""Browser connections, limited in number and time.

- A request has a deadline for its headers and another one for its body.
- A client that stops reading a response is disconnected.
- With MAX_CONNECTIONS open, a new connection replaces the one that has waited longest for its client to
  send. It is closed at once only when all others are being served.
"""

from __future__ import annotations

import asyncio
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 256
HEADERS_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 60.0
UNREAD_BODY_TIMEOUT_S = 5.0
"""The deadline for the rest of a body after its response was sent."""
WRITE_TIMEOUT_S = 30.0


class ConsoleConnection(H11Protocol):
    _deadline: asyncio.TimerHandle | None = None
    _awaited: object = None
    """The part of the request that the deadline applies to."""
    _awaited_since = 0.0
    _write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._set_deadline()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        self._clear_deadline()
        super().on_response_complete()
        self._set_deadline()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_deadline = self.loop.call_later(WRITE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None
        super().resume_writing()

    def _set_deadline(self) -> None:
        """Set the deadline for the part that the client must send next, unless it is already running."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        self._clear_deadline()
        if self.transport.is_closing() or state not in (h11.IDLE, h11.SEND_BODY):
            return
        if state is h11.IDLE:
            timeout_s = HEADERS_TIMEOUT_S
        else:
            timeout_s = UNREAD_BODY_TIMEOUT_S if self.cycle.response_complete else BODY_TIMEOUT_S
        self._awaited, self._awaited_since = state, self.loop.time()
        self._deadline = self.loop.call_later(timeout_s, self.transport.abort)

    def _clear_deadline(self) -> None:
        self._awaited = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> None:
        waiting = [
            other
            for other in self.connections
            if isinstance(other, ConsoleConnection) and other._awaited is not None
        ]
        # This connection is waiting too, so the list is not empty.
        oldest = min(waiting, key=lambda other: other._awaited_since)
        oldest.transport.abort()
        # `connection_lost` is called later; until then the next connection must not select this one.
        oldest._clear_deadline()
        self.connections.discard(oldest)
