"""Compaction of a broker's logs: chooses the dirtiest, has a process compact it, swaps the result in.

The event loop only looks at sizes and offsets and switches segments; keys are read and segments written in
processes of their own, as many as ``log.cleaner.threads``, each with its share of the memory and of the I/O.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.partitions.cleaner_process import Cleaner, CleanerDied, CleanerProcess
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, for_each
from ruslo.config.broker import BrokerConfig
from ruslo.config.limits import DOUBLE_MAX
from ruslo.model.topics import TopicPartition
from ruslo.storage.cleaner.cleanable import Cleanable, CleanerLimits, find_cleanable, make_task
from ruslo.storage.cleaner.job import remove_unfinished
from ruslo.storage.cleaner.task import CleanedSegment, CleanStats, Failure
from ruslo.storage.disk import DiskError
from ruslo.storage.log import Log
from ruslo.storage.log_manager import LogManager
from ruslo.storage.segment_swap import SegmentSwap

logger = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_PROCESS_MS = 60_000
MOST_DEATHS = 3
"""How often a log may cost the cleaner its life before it is left alone."""


class Abandoned(Exception):
    """The log is no longer what the round began with."""


class Compaction:
    def __init__(
        self,
        configs: DynamicConfig,
        logs: LogManager,
        partitions: PartitionManager,
        scheduler: Scheduler,
        new_cleaner: Callable[[], Cleaner] = CleanerProcess,
    ) -> None:
        self.new_cleaner = new_cleaner
        self._configs = configs
        self._logs = logs
        self._partitions = partitions
        self._scheduler = scheduler
        self._busy: set[TopicPartition] = set()
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs that cannot be compacted until the next start, and why."""
        self._given_up: dict[TopicPartition, Log] = {}
        """The same: a topic that is deleted may be made anew, and is another log then."""
        self.rounds = self.bytes_before = self.bytes_after = 0
        """Of all logs that were compacted since the start."""
        self._deaths: dict[TopicPartition, int] = {}
        self._workers: list[_Worker] = []
        self._stopping = False

    def start(self) -> None:
        self._configs.subscribe(lambda _: self._adjust())

    async def stop(self) -> None:
        """Give up what is under way; a swap that has begun is finished."""
        self._stopping = True
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        self._workers.clear()

    def abandon(self) -> None:
        """The processes end; nothing is put in order."""
        self._stopping = True
        for worker in self._workers:
            worker.abandon()

    @property
    def limits(self) -> CleanerLimits:
        config = self._configs.current
        share = max(config.int("log.cleaner.threads"), 1)
        rate = config.float("log.cleaner.io.max.bytes.per.second")
        load = config.float("log.cleaner.io.buffer.load.factor")
        return CleanerLimits(
            memory_bytes=int(config.int("log.cleaner.dedupe.buffer.size") * load / share),
            io_buffer_bytes=config.int("log.cleaner.io.buffer.size") // share,
            io_bytes_per_second=None if rate >= DOUBLE_MAX or math.isinf(rate) else rate / share,
        )

    @property
    def now_ms(self) -> int:
        return self._logs.clock.now_ms()

    @property
    def backoff_ms(self) -> int:
        return self._configs.current.int("log.cleaner.backoff.ms")

    def _adjust(self) -> None:
        """Have as many workers as the configuration says."""
        if self._stopping:
            return
        wanted = _worker_count(self._configs.current)
        while len(self._workers) < wanted:
            self._workers.append(_Worker(self, f"cleaner-{len(self._workers)}"))
        for worker in self._workers[wanted:]:
            worker.retire()
        del self._workers[wanted:]

    async def choose(self) -> Cleanable | None:
        """The log with the largest share of dirty bytes among those worth a round; it is busy from now on."""
        self._forget_the_gone()
        best: Cleanable | None = None

        def look(log: Log) -> None:
            nonlocal best
            partition = log.partition
            if log.config.compacts and partition not in self._busy and partition not in self.uncleanable:
                candidate = self._look_at(log)
                if candidate is not None and (best is None or candidate.dirty_ratio > best.dirty_ratio):
                    best = candidate

        steps = for_each(list(self._logs.logs.values()), look)
        await self._scheduler.run(steps, priority=Priority.BACKGROUND, name="choice of a log to compact")
        if best is None or best.log.partition in self._busy:
            return None
        # Requests were served between the slices: the log may have been truncated.
        best = self._look_at(best.log)
        if best is None:
            return None
        self._busy.add(best.log.partition)
        return best

    def _forget_the_gone(self) -> None:
        for partition in [each for each, log in self._given_up.items() if not self.is_current(log)]:
            del self._given_up[partition], self.uncleanable[partition]
            self._deaths.pop(partition, None)

    def _look_at(self, log: Log) -> Cleanable | None:
        directory = self._logs.directory_of(log.partition)
        if directory is None or not self.is_current(log):
            return None
        try:
            found = find_cleanable(log, directory.cleaned.get(log.partition), self.now_ms)
        except DiskError as error:
            self._partitions.storage_failed(error)
            return None
        return found if found is not None and found.is_worth_cleaning else None

    def is_current(self, log: Log) -> bool:
        return log.failure is None and self._logs.get(log.partition) is log

    def reserve(self, log: Log) -> bool:
        """Keep compaction away from a log until ``release``; False if a round is under way."""
        if log.partition in self._busy or log.swap is not None:
            return False
        self._busy.add(log.partition)
        return True

    def repaired(self, log: Log) -> None:
        """A damaged segment of a log was replaced: the log may be compacted again."""
        self.uncleanable.pop(log.partition, None)
        self._given_up.pop(log.partition, None)

    def release(self, log: Log) -> None:
        self._busy.discard(log.partition)

    async def secure(self, chosen: Cleanable) -> None:
        """Have the disk say that everything up to the round's end is synced; only then may gaps come up."""
        directory = self._logs.directory_of(chosen.log.partition)
        if directory is None:
            raise Abandoned
        write = directory.recovery_points()
        if write is not None:
            await self._partitions.run_jobs([write])
            if not write.done:
                raise Abandoned

    async def done(self, chosen: Cleanable, stats: CleanStats) -> None:
        log = chosen.log
        self.rounds += 1
        self.bytes_before += stats.bytes_before
        self.bytes_after += stats.bytes_after
        self._deaths.pop(log.partition, None)
        directory = self._logs.directory_of(log.partition)
        if directory is None or not self.is_current(log):
            return
        directory.cleaned[log.partition] = chosen.end_offset
        write = directory.cleaned_offsets()
        if write is not None:
            await self._partitions.run_jobs([write])
        logger.info(
            "%s is compacted up to offset %d: %d of %d bytes, %d of %d records are left (%.1f s, %.0f MB/s)",
            log.partition,
            chosen.end_offset,
            stats.bytes_after,
            stats.bytes_before,
            stats.records_after,
            stats.records_before,
            stats.seconds,
            stats.bytes_before / 1e6 / max(stats.seconds, 1e-6),
        )

    def failed(self, log: Log, failure: Failure) -> None:
        if failure.disk_errno is not None:
            cause = OSError(failure.disk_errno or None, failure.message)
            error = DiskError(log.directory, failure.path, "compact", cause)
            # The old segments are all there: a full disk costs nothing but this round.
            error.fatal = error.fatal and not error.disk_full
            if not error.not_found or self.is_current(log):
                self._partitions.storage_failed(error)
            return
        self.uncleanable[log.partition] = failure.message
        self._given_up[log.partition] = log
        logger.error(
            "%s cannot be compacted and is left alone until the next start: %s",
            log.partition,
            failure.message,
        )

    def died(self, log: Log, error: CleanerDied) -> None:
        if self._stopping:
            return
        deaths = self._deaths[log.partition] = self._deaths.get(log.partition, 0) + 1
        logger.warning("compaction of %s was interrupted: %s", log.partition, error)
        if deaths >= MOST_DEATHS:
            self.failed(log, Failure(f"the cleaner died {deaths} times over it: {error}"))

    def begin_swap(self, log: Log, cleaned: CleanedSegment) -> SegmentSwap:
        swap = SegmentSwap(log, cleaned, self.now_ms)
        if not swap.begin():
            raise Abandoned
        return swap

    def storage_failed(self, error: DiskError) -> None:
        self._partitions.storage_failed(error)


class _Worker:
    """One cleaner process with the thread that talks to it and the task that keeps it busy."""

    def __init__(self, compaction: Compaction, name: str) -> None:
        self._compaction = compaction
        self._process = compaction.new_cleaner()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._wake = asyncio.Event()
        self._retired = False
        self._task = asyncio.create_task(self._run(), name=name)

    def retire(self) -> None:
        """End after the round that is under way."""
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
                        if await self._round(chosen):
                            continue
                except Exception:
                    # One bad log must not end the compaction of all others.
                    logger.exception("a round of compaction failed")
                backoff_ms = max(self._compaction.backoff_ms, 1)
                await self._pause(backoff_ms)
                idle_ms += backoff_ms
                if idle_ms >= IDLE_PROCESS_MS:
                    await self._in_thread(self._process.stop)
        except GeneratorExit:
            # The loop is gone, as that of a simulated node is that was killed: there is nobody to wait.
            collected = True
            raise
        finally:
            if not collected:
                await self._in_thread(self._process.stop)
            self._thread.shutdown(wait=False)

    async def _pause(self, duration_ms: int) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), duration_ms / 1000)
        except TimeoutError:
            return

    async def _round(self, chosen: Cleanable) -> bool:
        """Compact a log; False if it could not be done, so that a pause is in order."""
        log, compaction = chosen.log, self._compaction
        truncations = log.truncations
        task = make_task(chosen, compaction.limits, compaction.now_ms)
        try:
            await compaction.secure(chosen)
            await self._in_thread(self._process.send, task)
            while True:
                report = await self._in_thread(self._process.receive)
                if not compaction.is_current(log) or log.truncations != truncations or self._retired:
                    raise Abandoned
                if report.segment is not None:
                    await self._swap(log, report.segment)
                elif report.starving:
                    await self._in_thread(self._process.insist)
                    return True
                elif report.failure is not None:
                    if log.segments[0].base_offset > task.segments[0].base_offset:
                        # Retention has taken the oldest segments: no wonder that they are not there.
                        raise Abandoned
                    compaction.failed(log, report.failure)
                    return False
                elif report.done is not None:
                    await compaction.done(chosen, report.done)
                    return True
        except Abandoned:
            await self._give_up(log)
        except CleanerDied as error:
            compaction.died(log, error)
            await self._give_up(log)
        except DiskError as error:
            # Files may be half renamed: only the next start can put that right.
            error.fatal = True
            compaction.storage_failed(error)
            await self._give_up(log)
        finally:
            compaction.release(log)
        return False

    async def _swap(self, log: Log, cleaned: CleanedSegment) -> None:
        swap = self._compaction.begin_swap(log, cleaned)
        await self._in_thread(swap.retire_old_segments)
        if self._compaction.is_current(log):
            swap.finish()

    async def _give_up(self, log: Log) -> None:
        await self._in_thread(self._process.stop)
        if self._compaction.is_current(log):
            try:
                await self._in_thread(remove_unfinished, log.disk, log.path)
            except DiskError as error:
                if not error.not_found:
                    self._compaction.storage_failed(error)

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)


def _worker_count(config: BrokerConfig) -> int:
    return config.int("log.cleaner.threads") if config.bool("log.cleaner.enable") else 0
