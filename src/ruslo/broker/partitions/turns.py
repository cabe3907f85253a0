"""Work on many things, done in short turns of the event loop, so that requests are served in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

TURN_S = 0.005


async def in_turns(items: Iterable[T], act: Callable[[T], object]) -> None:
    """``act`` on each item; ``items`` must not change meanwhile, so give a copy."""
    until_s = time.monotonic() + TURN_S
    for item in items:
        act(item)
        if time.monotonic() >= until_s:
            await asyncio.sleep(0)
            until_s = time.monotonic() + TURN_S
