"""What is known of a request besides its body."""

from __future__ import annotations

from dataclasses import dataclass

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class RequestContext:
    api_version: int
    client_id: str | None = None
    listener_name: str = "PLAINTEXT"
    peer_host: str = "127.0.0.1"
    principal: str = ANONYMOUS
