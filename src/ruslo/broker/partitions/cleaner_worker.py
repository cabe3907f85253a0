"""One cleaner process with the thread that talks to it and the task that keeps it busy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ruslo.broker.partitions.cleaner_process import CleanerDied
from ruslo.storage.cleaner.cleanable import Cleanable, make_task
from ruslo.storage.cleaner.job import remove_unfinished
from ruslo.storage.cleaner.task import CleanedSegment
from ruslo.storage.disk import DiskError
from ruslo.storage.log import Log
from ruslo.storage.segment_swap import SegmentSwap

if TYPE_CHECKING:
    from ruslo.broker.partitions.compaction import Compaction

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_IDLE_PROCESS_MS = 60_000


class Abandoned(Exception):
    """The log was truncated, deleted or taken offline during its compaction."""


class CleanerWorker:
    def __init__(self, compaction: Compaction, name: str) -> None:
        self._compaction = compaction
        self._process = compaction.new_cleaner()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._wake = asyncio.Event()
        self._retired = False
        self._task = asyncio.create_task(self._run(), name=name)

    def retire(self) -> None:
        """End after the present compaction."""
        self._retired = True
        self._wake.set()

    async def stop(self) -> None:
        self.abandon()
        await self._task

    def abandon(self) -> None:
        self.retire()
        self._process.kill()

    async def _run(self) -> None:
        idle_ms = 0
        collected = False
        try:
            while not self._retired:
                try:
                    chosen = await self._compaction.choose()
                    if chosen is not None:
                        idle_ms = 0
                        if await self._compact(chosen):
                            continue
                except Exception:
                    # One damaged log must not stop the compaction of all others.
                    logger.exception("Compaction failed")
                backoff_ms = max(self._compaction.backoff_ms, 1)
                with suppress(TimeoutError):
                    async with asyncio.timeout(backoff_ms / 1000):
                        await self._wake.wait()
                idle_ms += backoff_ms
                if idle_ms >= MAX_IDLE_PROCESS_MS:
                    await self._in_thread(self._process.stop)
        except GeneratorExit:
            # A simulated node was killed and its event loop with it: nothing can be awaited.
            collected = True
            raise
        finally:
            if not collected:
                await self._in_thread(self._process.stop)
            self._thread.shutdown(wait=False)

    async def _compact(self, chosen: Cleanable) -> bool:
        """Compact a log; returns False if it failed, and a pause should follow."""
        log, compaction = chosen.log, self._compaction
        truncations = log.truncations
        task = make_task(chosen, compaction.limits, compaction.now_ms)
        try:
            await compaction.write_recovery_point(chosen)
            await self._in_thread(self._process.send, task)
            while True:
                report = await self._in_thread(self._process.receive)
                if not compaction.logs.is_current(log) or log.truncations != truncations or self._retired:
                    raise Abandoned
                if report.segment is not None:
                    await self._swap(log, report.segment)
                elif report.starving:
                    await self._in_thread(self._process.raise_priority)
                    return True
                elif report.failure is not None:
                    if log.segments[0].base_offset > task.segments[0].base_offset:
                        # Retention has deleted the oldest segments.
                        raise Abandoned
                    compaction.on_failure(log, report.failure)
                    return False
                elif report.done is not None:
                    await compaction.on_done(chosen, report.done)
                    return True
        except Abandoned:
            await self._clean_up(log)
        except CleanerDied as error:
            compaction.on_crash(log, error)
            await self._clean_up(log)
        except DiskError as error:
            # Some files may be renamed and others not: only the next start can repair that.
            error.fatal = True
            compaction.partitions.storage_failed(error)
            await self._clean_up(log)
        finally:
            compaction.release(log)
        return False

    async def _swap(self, log: Log, cleaned: CleanedSegment) -> None:
        swap = SegmentSwap(log, cleaned, self._compaction.now_ms)
        if not swap.begin():
            raise Abandoned
        await self._in_thread(swap.retire_old_segments)
        if self._compaction.logs.is_current(log):
            swap.finish()

    async def _clean_up(self, log: Log) -> None:
        await self._in_thread(self._process.stop)
        if self._compaction.logs.is_current(log):
            try:
                await self._in_thread(remove_unfinished, log.disk, log.path)
            except DiskError as error:
                if not error.not_found:
                    self._compaction.partitions.storage_failed(error)

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)
