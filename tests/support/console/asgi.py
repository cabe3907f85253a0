"""Sends requests to an ASGI application without a server or a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from starlette.types import ASGIApp, Message


class HttpResponse(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def cookie(self) -> str:
        """The cookie that a browser would send back."""
        return self.headers.get("set-cookie", "").partition(";")[0]


def request(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> HttpResponse:
    return asyncio.run(request_async(app, path, method=method, headers=headers, body=body))


async def request_async(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> HttpResponse:
    sent = {"host": "127.0.0.1:8090"} | dict(headers or {})
    plain, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": plain,
        "raw_path": plain.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8090),
        "state": {},
    }
    sent_messages: list[Message] = []
    parts = [body[at : at + 65536] for at in range(0, len(body), 65536)] or [b""]

    async def receive() -> Message:
        part = parts.pop(0) if parts else b""
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent_messages.append(message)

    await app(scope, receive, send)
    start = sent_messages[0]
    return HttpResponse(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent_messages[1:]),
    )
