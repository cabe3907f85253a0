"""Connections of browsers, bounded in number and in time.

- A request has a deadline for its headers and another one for its body.
- A client that stops reading a response is disconnected.
- With MAX_CONNECTIONS open, the one that has waited longest for its client to send makes room for the next.
  A new connection is closed at once only when all others are being answered.
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
"""For the rest of a body that is answered already and that no page reads."""
WRITE_TIMEOUT_S = 30.0


class ConsoleConnection(H11Protocol):
    _deadline: asyncio.TimerHandle | None = None
    _awaited: object = None
    """The part of a request that the deadline is for."""
    _awaited_since = 0.0
    _write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._watch()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        self._stop_waiting()
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_deadline = self.loop.call_later(WRITE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None
        super().resume_writing()

    def _watch(self) -> None:
        """Set the deadline for what the client has yet to send, unless it runs already."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        self._stop_waiting()
        if self.transport.is_closing() or state not in (h11.IDLE, h11.SEND_BODY):
            return
        if state is h11.IDLE:
            timeout_s = HEADERS_TIMEOUT_S
        else:
            timeout_s = UNREAD_BODY_TIMEOUT_S if self.cycle.response_complete else BODY_TIMEOUT_S
        self._awaited, self._awaited_since = state, self.loop.time()
        self._deadline = self.loop.call_later(timeout_s, self.transport.abort)

    def _stop_waiting(self) -> None:
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
        # At the latest this one: it has just begun to wait.
        oldest = min(waiting, key=lambda other: other._awaited_since)
        oldest.transport.abort()
        # `connection_lost` comes later; until then the next connection must find another one.
        oldest._stop_waiting()
        self.connections.discard(oldest)
