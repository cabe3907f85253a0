"""Work on many things, done in short turns of the event loop, so that requests are served in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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


def used_up(items: list[T]) -> Iterator[T]:
    """The items from the last to the first, and out of the list: to free thousands at once takes long too."""
    while items:
        yield items.pop()


async def in_portions(items: Sequence[T], act: Callable[[T], object], size: int = 250) -> None:
    """The same for what always takes a few microseconds: no clock decides, so that simulations repeat."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        for item in items[start : start + size]:
            act(item)
