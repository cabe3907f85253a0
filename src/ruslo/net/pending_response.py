"""A response that is sent later, at its place in the order of the connection's requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ruslo.net.send_queue import Chunk

if TYPE_CHECKING:
    from ruslo.net.connection import Connection


class PendingResponse:
    __slots__ = ("_connection", "chunks", "on_abandoned")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.chunks: Sequence[Chunk] | None = None
        """The response; None until it is complete."""
        self.on_abandoned: Callable[[], None] | None = None
        """Called if the client disconnects before the response is complete, so that nothing is kept for it.
        Only a request that waits without any effect has one."""

    @property
    def abandoned(self) -> bool:
        """Whether the client has disconnected and will not read the response."""
        return self.chunks is not None or self._connection.closed

    def abandon(self) -> None:
        """Send nothing: the client has disconnected."""
        self.chunks = ()
        abandoned, self.on_abandoned = self.on_abandoned, None
        if abandoned is not None:
            abandoned()

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Complete the response; an empty sequence sends nothing (Produce with acks=0)."""
        # The callback refers to this object: without this line the two would be a reference cycle.
        self.on_abandoned = None
        self.chunks = chunks
        self._connection.release_responses()
