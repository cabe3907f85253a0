"""Calls a handler as dispatch does: request and response pass through their codecs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar

from ruslo.broker.requests.access import OPEN, Access
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.error_responses import error_response
from ruslo.model.errors import KafkaError
from ruslo.protocol.message import Message

ResponseT = TypeVar("ResponseT", bound=Message)


async def exchange(
    handle: Callable[[Any, Any, RequestContext], ResponseT | Awaitable[ResponseT]],
    services: object,
    request: Message,
    version: int | None = None,
    listener: str = "PLAINTEXT",
    access: Access = OPEN,
    *,
    as_response: bool = False,
) -> ResponseT:
    """``version`` None: the newest. Fields that an older version lacks are lost, as on the wire.

    A KafkaError becomes a response if it has no field for an error of the whole request; ``as_response``: in
    any case, as in dispatch.
    """
    if version is None:
        version = request.MAX_VERSION
    received = type(request).from_bytes(request.to_bytes(version), version)
    context = RequestContext(api_version=version, listener_name=listener, access=access)
    response: Any
    try:
        response = handle(services, received, context)
        response = await response if isawaitable(response) else response
    except KafkaError as error:
        response = error_response(received, error, version)
        if response is None or (hasattr(response, "error_code") and not as_response):
            raise
    return type(response).from_bytes(response.to_bytes(version), version)  # type: ignore[no-any-return]
