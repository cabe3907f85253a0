"""The TLS handshakes of clients, a few in each iteration of the event loop.

A handshake takes a fraction of a millisecond, most of it for one signature. The messages of hundreds of
clients can arrive in the same iteration, as when all of them reconnect: connections that are open would wait
for all of these handshakes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

HANDSHAKES_PER_ITERATION = 4


class Handshake(Protocol):
    def continue_handshake(self) -> None: ...


class HandshakeQueue:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Handshake] = deque()
        self._scheduled = False

    def add(self, handshake: Handshake) -> None:
        """Continue the handshake after those that wait already, in this iteration at the earliest."""
        self._waiting.append(handshake)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._continue_some)

    def _continue_some(self) -> None:
        self._scheduled = False
        try:
            for _ in range(min(HANDSHAKES_PER_ITERATION, len(self._waiting))):
                self._waiting.popleft().continue_handshake()
        finally:
            # Even if the handler of a request failed, which the event loop reports.
            self._schedule()
