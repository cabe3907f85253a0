"""Event loops on virtual time: asyncio code runs in a simulation unchanged.

``SimEventLoop`` has what the drivers of machines use: futures, ``call_soon`` and ``call_later``. It has no
tasks, threads or sockets, whose order could not be repeated.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVarTuple, Unpack, cast

from ruslo.model.clock import Clock
from ruslo.testing.simulation.clock import SimClock

Args = TypeVarTuple("Args")


class VirtualLoop:
    """Creates handles and futures; subclasses decide when the handles run."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._loop = cast(asyncio.AbstractEventLoop, self)
        """This loop as asyncio's type; asyncio uses nothing that is missing here."""
        self.failures: list[BaseException] = []
        """Unhandled errors of callbacks."""

    @abstractmethod
    def _enqueue(self, handle: asyncio.Handle) -> None: ...

    @abstractmethod
    def _enqueue_at(self, handle: asyncio.TimerHandle) -> None: ...

    def time(self) -> float:
        return self.clock.monotonic_ms() / 1000

    def call_soon(
        self,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._loop, context)
        self._enqueue(handle)
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
        self._enqueue_at(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._loop)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.failures.append(error if isinstance(error, BaseException) else RuntimeError(context["message"]))

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by the handle; a cancelled timer is skipped when it is due."""


class SimEventLoop(VirtualLoop):
    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock)
        self._sim = clock

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context in which ``asyncio.get_running_loop`` returns this loop; raises the first failure."""
        events._set_running_loop(self._loop)
        try:
            yield
        finally:
            events._set_running_loop(None)
        for failure in self.failures:
            raise failure

    def _enqueue(self, handle: asyncio.Handle) -> None:
        self._sim.call_later(0, lambda: self._run(handle))

    def _enqueue_at(self, handle: asyncio.TimerHandle) -> None:
        self._sim.call_at(round(handle.when() * 1000), lambda: self._run(handle))

    def _run(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            handle._run()
