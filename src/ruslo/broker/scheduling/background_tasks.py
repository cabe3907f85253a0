"""Tasks that run beside their caller, and how they are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundTasks(set[asyncio.Task[Any]]):
    """Running tasks. The event loop itself holds only weak references to them."""

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    async def stop(self) -> None:
        await cancel_all(*self)


async def cancel_all(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel the tasks and wait until they have ended; None stands for a task that was not started."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)
