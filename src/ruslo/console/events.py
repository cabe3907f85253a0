"""Server-sent events for pages with live figures."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from ruslo.console.error_texts import error_text
from ruslo.model.errors import RusloError

_LISTENERS_MAX = 64
_listeners = 0


def event(name: str, value: object) -> str:
    """Format an event. JSON contains no line breaks, so a value cannot forge an event."""
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"


def stream(events: AsyncIterator[str]) -> Response:
    """Send events until the browser disconnects; errors are sent as an event ``problem``."""
    if _listeners >= _LISTENERS_MAX:
        return PlainTextResponse("Too many live pages are open. Close some of them and reload.\n", 503)
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
        logging.getLogger(__name__).debug("event stream ended: %s", error)
        yield event("problem", error_text(error))
    finally:
        _listeners -= 1
        closing = getattr(events, "aclose", None)
        if closing is not None:
            with contextlib.suppress(RuntimeError, asyncio.CancelledError):
                await closing()
