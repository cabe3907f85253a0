"""The cooperative scheduler: long work on the event loop, done in slices between which requests are served.

Work is a generator that yields after each small step. ``Scheduler.run`` takes the first steps at once, so
short work is complete when it returns. Longer work goes on in later iterations of the event loop:

* A slice is the time that all work together gets in one iteration of the event loop: ``SLICE_NS``.
* Work of a higher priority goes first. Pieces of work with the same priority alternate, a slice each.
* Time is read from the clock after every step, so a step should take between 1 µs and 1 ms.

A node has one scheduler. Simulated nodes have one whose clock moves by a seeded amount at every reading: each
seed divides the same work into other slices, and a run can be repeated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

from ruslo.model.clock import Clock

R = TypeVar("R")
T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, R]
"""Work: it yields after each step and returns its result."""

SLICE_NS = 2_000_000


class Priority(IntEnum):
    """The order in which waiting work gets its slices."""

    CLUSTER = 0
    """Clients of the whole cluster wait for it: metadata, leadership, in-sync replicas, acknowledgements."""
    REQUEST = 1
    """One client waits for it: a large response, a coordinator that is loading."""
    BACKGROUND = 2
    """Nothing waits for it: retention, scrapes, the choice of a log to compact."""


class Work(asyncio.Future[R]):
    """The handle of work: awaiting it returns its result or raises its error.

    The event loop's exception handler reports an error that no caller retrieves. A caller that is cancelled
    while it awaits the work cancels the work.
    """

    def __init__(self, steps: Steps[R], priority: Priority, name: str) -> None:
        super().__init__()
        self.steps = steps
        self.priority = priority
        self.name = name
        self.is_running = False
        """A step is being taken now."""

    def cancel(self, msg: object = None) -> bool:
        """Take no further step; ``finally`` blocks of the work run now."""
        if not super().cancel(msg):
            return False
        if not self.is_running:
            self.steps.close()
        return True

    def __repr__(self) -> str:
        return f"<Work {self.name!r} {self._state.lower()}>"


class Scheduler:
    def __init__(self, clock: Clock) -> None:
        self._now_ns = clock.monotonic_ns
        self._waiting: tuple[deque[Work[Any]], ...] = tuple(deque() for _ in Priority)
        self._slice_ends_ns: int | None = None
        """The end of this iteration's slice; None: no work has used this iteration."""

    def run(self, steps: Steps[R], *, priority: Priority, name: str) -> Work[R]:
        """Start work. It is done on return if the slice is long enough and no work of its priority waits."""
        work = Work(steps, priority, name)
        if self._slice_ends_ns is None:
            self._open_slice()
        if not any(self._waiting[: priority + 1]) and not self._is_slice_over():
            self._advance(work)
        if not work.done():
            self._waiting[priority].append(work)
        return work

    async def checkpoint(self, priority: Priority) -> None:
        """For a coroutine with long work: return at once while the slice lasts, or else in a later one."""
        await self.run(for_each((None,), lambda _: None), priority=priority, name="checkpoint")

    def _open_slice(self) -> None:
        self._slice_ends_ns = self._now_ns() + SLICE_NS
        asyncio.get_running_loop().call_soon(self._run_slice)

    def _is_slice_over(self) -> bool:
        assert self._slice_ends_ns is not None, "work runs in a slice"
        return self._now_ns() >= self._slice_ends_ns

    def _run_slice(self) -> None:
        self._slice_ends_ns = None
        work = self._next()
        if work is None:
            return
        self._open_slice()
        while work is not None:
            self._advance(work)
            if not work.done():
                self._waiting[work.priority].append(work)
            work = None if self._is_slice_over() else self._next()

    def _next(self) -> Work[Any] | None:
        for queue in self._waiting:
            while queue:
                work = queue.popleft()
                if not work.done():
                    return work
        return None

    def _advance(self, work: Work[R]) -> None:
        """Take steps until the work or the slice is over."""
        steps, now_ns, ends_ns = work.steps, self._now_ns, self._slice_ends_ns
        assert ends_ns is not None, "work runs in a slice"
        work.is_running = True
        try:
            while not work.done():
                next(steps)
                if now_ns() >= ends_ns:
                    break
            if work.done():
                # A step has cancelled its own work.
                steps.close()
        except StopIteration as end:
            if not work.done():
                work.set_result(end.value)
        except Exception as error:
            if work.done():
                raise
            # Without the frame of this call the error does not refer to the work, which refers to it.
            work.set_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        finally:
            work.is_running = False


def for_each(items: Iterable[T], act: Callable[[T], object]) -> Steps[None]:
    """Act on one item in each step; ``items`` must not change meanwhile."""
    for item in items:
        act(item)
        yield


def consume(items: list[T]) -> Iterator[T]:
    """Yield and drop the items from the last to the first: freeing thousands at once is long work too."""
    while items:
        yield items.pop()
