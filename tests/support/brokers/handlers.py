"""Calls a handler as dispatch does: request and response pass through their codecs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar

from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message

ResponseT = TypeVar("ResponseT", bound=Message)


async def exchange(
    handle: Callable[[Any, Any, RequestContext], ResponseT | Awaitable[ResponseT]],
    services: object,
    request: Message,
    version: int | None = None,
    listener: str = "PLAINTEXT",
) -> ResponseT:
    """``version`` None: the newest. Fields that an older version lacks are lost, as on the wire."""
    if version is None:
        version = request.MAX_VERSION
    received = type(request).from_bytes(request.to_bytes(version), version)
    context = RequestContext(api_version=version, listener_name=listener)
    response = handle(services, received, context)
    response = await response if isawaitable(response) else response
    return type(response).from_bytes(response.to_bytes(version), version)
