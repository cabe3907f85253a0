"""Server-sent events: pages that listen hear of news without asking."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from ruslo.console.problems import reason
from ruslo.model.errors import RusloError

_LISTENERS_MAX = 64
_listeners = 0


def event(name: str, value: object) -> str:
    """JSON has no line ends of its own, so that no value can forge an event."""
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"


def stream(events: AsyncIterator[str]) -> Response:
    """Until the listener leaves; what goes wrong is told as an event ``problem``."""
    if _listeners >= _LISTENERS_MAX:
        return PlainTextResponse("Too many pages listen already.\n", 503)
    return StreamingResponse(
        _counted(events), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


async def _counted(events: AsyncIterator[str]) -> AsyncIterator[str]:
    global _listeners
    _listeners += 1
    try:
        yield "retry: 3000\n\n"
        async for each in events:
            yield each
    except (RusloError, TimeoutError) as error:
        logging.getLogger(__name__).debug("a live page ends: %s", error)
        yield event("problem", reason(error))
    finally:
        _listeners -= 1
        closing = getattr(events, "aclose", None)
        if closing is not None:
            with contextlib.suppress(RuntimeError, asyncio.CancelledError):
                await closing()
