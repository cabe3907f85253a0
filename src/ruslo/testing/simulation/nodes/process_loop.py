"""The event loop of one simulated process: unchanged asyncio on virtual time and a simulated network.

- Every process has its own loop; all share one ``SimClock``.
- A killed process never runs another callback, so it cleans up nothing. A paused one runs them when it
  resumes.
- Its clock may be wrong, and may run too fast or too slow.
- Threads do not exist: work for an executor runs at once, at the start or the end of the time that a disk
  takes.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from math import ceil
from typing import Any, TypeVar, Unpack

from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.event_loop import Args, VirtualLoop
from ruslo.testing.simulation.nodes.network import ProtocolFactory, SimNetwork, SimServer
from ruslo.testing.simulation.nodes.transport import SimTransport

T = TypeVar("T")


class ProcessClock:
    """A ``model.clock.Clock`` that runs too fast or too slow and has its own wall clock."""

    def __init__(self, clock: SimClock, *, rate: float = 1.0, ahead_ms: int = 0) -> None:
        self._clock = clock
        self._rate = rate
        self._ahead_ms = ahead_ms
        self._since_ms = 0
        """The true time when the rate was last changed."""
        self._base_ms = 0.0
        """The time of this clock at that moment."""

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        return int(self._base_ms + (self._clock.monotonic_ms() - self._since_ms) * self._rate)

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def change(self, *, rate: float, ahead_ms: int) -> None:
        """Takes effect now; the monotonic clock does not jump."""
        now_ms = self._clock.monotonic_ms()
        self._base_ms += (now_ms - self._since_ms) * self._rate
        self._since_ms = now_ms
        self._rate = rate
        self._ahead_ms = ahead_ms

    def due_ms(self, local_ms: float) -> int:
        """The true time at which this clock shows ``local_ms``."""
        return self._since_ms + ceil((local_ms - self._base_ms) / self._rate - 1e-6)


class ProcessLoop(VirtualLoop):
    clock: ProcessClock

    def __init__(
        self, network: SimNetwork, host: str, local: ProcessClock, on_step: Callable[[], None]
    ) -> None:
        """``on_step``: called after every step of the process."""
        super().__init__(local)
        self.network = network
        self.host = host
        self._sim = network.clock
        self._on_step = on_step
        self._ready: deque[asyncio.Handle] = deque()
        self._is_due = False
        self.alive = True
        self.paused = False
        self.disk_ms: Callable[[], int] = lambda: 0
        """The duration of a disk operation."""
        self._free_at_ms: dict[object, int] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        """All tasks, so that none is collected and runs its ``finally``, which a dead process does not."""

    # -- running ---------------------------------------------------------------------------------------------

    def run_ready(self) -> None:
        self._is_due = False
        if not self.alive or self.paused:
            return
        ready = self._ready
        events._set_running_loop(self._loop)
        try:
            for _ in range(len(ready)):
                if not ready:
                    break  # The process has just ended by itself.
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            events._set_running_loop(None)
        if ready:
            self._wake()
        if self.alive:
            self._on_step()

    def kill(self) -> None:
        self.alive = False
        self._ready.clear()

    def unhandled(self) -> Iterator[BaseException]:
        """Errors of callbacks, and of tasks whose error was never retrieved."""
        yield from self.failures
        for task in self.tasks:
            if task.done() and task._log_traceback:
                error = task.exception()
                if error is not None:
                    yield error

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._wake()

    def _wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._sim.call_later(0, self.run_ready)

    def _enqueue(self, handle: asyncio.Handle) -> None:
        if self.alive:
            self._ready.append(handle)
            self._wake()

    # -- the event loop interface ----------------------------------------------------------------------------

    call_soon_threadsafe = VirtualLoop.call_soon

    def _enqueue_at(self, handle: asyncio.TimerHandle) -> None:
        self._sim.call_at(self.clock.due_ms(handle.when() * 1000), lambda: self._timer_due(handle))

    def _timer_due(self, handle: asyncio.TimerHandle) -> None:
        if not handle.cancelled():
            self._enqueue(handle)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self._loop, name=name, context=context)
        self.tasks.append(task)
        return task

    def run_in_executor(
        self, executor: object, func: Callable[[Unpack[Args]], T], *args: *Args
    ) -> asyncio.Future[T]:
        """A given executor has one thread, whose work is queued."""
        done: asyncio.Future[T] = self.create_future()
        now_ms = self._sim.monotonic_ms()
        begin_ms = now_ms if executor is None else max(now_ms, self._free_at_ms.get(executor, 0))
        end_ms = begin_ms + self.disk_ms()
        if executor is not None:
            self._free_at_ms[executor] = end_ms
        outcome: list[T | Exception] = []

        def work() -> None:
            if self.alive:
                try:
                    outcome.append(func(*args))
                except Exception as error:
                    outcome.append(error)

        def retrieve() -> None:
            if done.cancelled():
                return
            if isinstance(outcome[0], Exception):
                done.set_exception(outcome[0])
            else:
                done.set_result(outcome[0])

        def finish() -> None:
            if self.alive:
                self.call_soon(retrieve)

        self._sim.call_at(begin_ms if self._sim.random.random() < 0.5 else end_ms, work)
        self._sim.call_at(end_ms, finish)
        return done

    async def create_server(
        self, protocol_factory: ProtocolFactory, host: str | None = None, port: int = 0, **options: object
    ) -> SimServer:
        return self.network.listen(self, protocol_factory, port)

    async def create_connection(
        self, protocol_factory: ProtocolFactory, host: str, port: int, **options: object
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        return await self.network.connect(self, protocol_factory, host, port)

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False
