"""Group commit: one fdatasync at a time for each log directory, shared by all partitions that wait for one.

While a sync runs in its thread, more appends arrive; the next sync covers them all. The cost of durability is
therefore per disk, not per request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ruslo.broker.partitions.flush_policy import FlushPolicy
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, consume, for_each
from ruslo.model.clock import Clock
from ruslo.model.errors import StorageError
from ruslo.storage.disk import DiskError
from ruslo.storage.log_sync import SyncTargets, run_together

logger = logging.getLogger(__name__)

DISK_FULL_RETRY_S = 1.0


class Flusher:
    def __init__(
        self, name: str, clock: Clock, scheduler: Scheduler, on_failure: Callable[[StorageError], None]
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"flush-{name}")
        self._on_failure = on_failure
        self._waiting: dict[FlushPolicy, None] = {}
        """Partitions that the next sync covers, in the order of their requests."""
        self._running: asyncio.Task[None] | None = None
        self._failed = False
        self._closed = False

    def request(self, flush: FlushPolicy) -> None:
        """Sync the partition's log soon; ``FlushPolicy.on_synced`` is called afterwards."""
        if self._failed:
            return
        self._waiting[flush] = None
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def withdraw(self, flush: FlushPolicy) -> bool:
        """Forget a request whose sync has not started; returns whether there was one."""
        return flush in self._waiting and self._waiting.pop(flush) is None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                round_, self._waiting = self._waiting, {}
                targets: list[tuple[FlushPolicy, SyncTargets]] = []
                await self._in_slices(for_each(round_, partial(_prepare, targets)))
                await loop.run_in_executor(self._executor, run_together, [target for _, target in targets])
                await self._in_slices(
                    for_each(consume(targets), lambda each: each[0].on_synced(each[1], self._clock.now_ms()))
                )
        except DiskError as error:
            self._on_failure(error)
            if not error.fatal:
                # The disk is full: the partitions wait until there is room again.
                self._waiting = round_ | self._waiting
                loop.call_later(DISK_FULL_RETRY_S, self._resume)
                return
            # After a failed fsync the kernel may have dropped the pages: a retry could succeed without them.
            self._failed = True
            self._waiting.clear()
        finally:
            self._running = None

    async def _in_slices(self, steps: Steps[None]) -> None:
        await self._scheduler.run(steps, priority=Priority.CLUSTER, name="flush of logs")

    def _resume(self) -> None:
        if self._waiting and self._running is None and not self._closed:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        self._closed = True
        if self._running is not None:
            await self._running
        self._executor.shutdown(wait=True)


def _prepare(targets: list[tuple[FlushPolicy, SyncTargets]], flush: FlushPolicy) -> None:
    # The topic may have been deleted since the request, and its files with it.
    if not flush.closed:
        targets.append((flush, flush.log.sync_targets()))
