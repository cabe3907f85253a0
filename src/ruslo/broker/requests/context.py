"""The context of a request: its version, its client, and the connection that carried it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ruslo.net.connection import Connection

ANONYMOUS = "User:ANONYMOUS"


class RequestContext(NamedTuple):
    api_version: int
    client_id: str | None = None
    listener_name: str = "PLAINTEXT"
    peer_host: str = "127.0.0.1"
    principal: str = ANONYMOUS
    forwarded: bool = False
    """Whether a broker forwarded the request to this controller in an Envelope (KIP-590)."""
    connection: Connection | None = None
    """The connection that carried the request; None for a request of this node to itself."""
