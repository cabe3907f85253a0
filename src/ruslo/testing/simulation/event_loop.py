"""An event loop on virtual time: code written for asyncio runs in a simulation as it is.

It has what the drivers of machines use: futures, ``call_soon``, ``call_later``. There are no tasks, no
threads and no sockets, whose order nobody could repeat.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVarTuple, Unpack, cast

from ruslo.testing.simulation.clock import SimClock

Args = TypeVarTuple("Args")


class SimEventLoop:
    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._loop = cast(asyncio.AbstractEventLoop, self)
        """As asyncio sees it, which asks for nothing that is not here."""
        self.failures: list[dict[str, Any]] = []
        """What callbacks raised; ``running`` raises the first of them when it is left."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within this, it is the loop that ``asyncio.get_running_loop`` finds."""
        events._set_running_loop(self._loop)
        try:
            yield
        finally:
            events._set_running_loop(None)
        for failure in self.failures:
            raise failure.get("exception") or AssertionError(failure["message"])

    def time(self) -> float:
        return self._clock.monotonic_ms() / 1000

    def call_soon(
        self,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._loop, context)
        self._clock.call_later(0, lambda: self._run(handle))
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self._loop, context)
        self._clock.call_at(round(when * 1000), lambda: self._run(handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._loop)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def get_debug(self) -> bool:
        return False

    def _run(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by the handle; nothing to do, as a cancelled one is passed over when its time comes."""
