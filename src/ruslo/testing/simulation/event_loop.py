"""An event loop on virtual time: asyncio code runs in a simulation unchanged.

It has what the drivers of machines use: futures, ``call_soon`` and ``call_later``. It has no tasks, threads
or sockets, whose order could not be repeated.
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
        """This loop as asyncio's type; asyncio uses nothing that is missing here."""
        self.failures: list[dict[str, Any]] = []
        """Exceptions of callbacks; ``running`` raises the first one on exit."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context in which ``asyncio.get_running_loop`` returns this loop."""
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
        """Called by the handle; a cancelled timer is skipped when it is due."""
