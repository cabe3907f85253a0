"""Compaction of a broker's logs: chooses the dirtiest log and has a process compact it.

The event loop only compares sizes and offsets and swaps segments. Separate processes read the keys and write
the segments: ``log.cleaner.threads`` of them, each with its share of the memory and the I/O rate.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.partitions.cleaner_process import Cleaner, CleanerDied, CleanerProcess
from ruslo.broker.partitions.cleaner_worker import Abandoned, CleanerWorker
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, for_each
from ruslo.config.limits import DOUBLE_MAX
from ruslo.model.topics import TopicPartition
from ruslo.storage.cleaner.cleanable import Cleanable, CleanerLimits, find_cleanable
from ruslo.storage.cleaner.task import CleanStats, Failure
from ruslo.storage.disk import DiskError
from ruslo.storage.log import Log
from ruslo.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

MAX_CRASHES_PER_LOG = 3
"""After this many crashes of the cleaner process a log counts as uncleanable."""


@dataclass(slots=True, eq=False)
class Compaction:
    _configs: DynamicConfig
    logs: LogManager
    partitions: PartitionManager
    _scheduler: Scheduler
    new_cleaner: Callable[[], Cleaner] = CleanerProcess
    uncleanable: dict[TopicPartition, tuple[Log, str]] = field(default_factory=dict)
    """Logs that are not compacted until the next start, and the reason. A deleted topic may be created again
    and has another log then."""
    rounds: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    """The totals of all compactions since the start."""
    _busy: set[TopicPartition] = field(default_factory=set)
    _crashes: dict[TopicPartition, int] = field(default_factory=dict)
    _workers: list[CleanerWorker] = field(default_factory=list)
    _stopping: bool = False

    def start(self) -> None:
        self._configs.subscribe(lambda _: self._set_worker_count())

    async def stop(self) -> None:
        """Abandon the running compactions; a segment swap that has begun is finished."""
        self._stopping = True
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        self._workers.clear()

    def abandon(self) -> None:
        """Kill the processes without cleaning up."""
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
        return self.logs.clock.now_ms()

    @property
    def backoff_ms(self) -> int:
        return self._configs.current.int("log.cleaner.backoff.ms")

    def _set_worker_count(self) -> None:
        """Start or retire workers to match the configuration."""
        if self._stopping:
            return
        config = self._configs.current
        wanted = config.int("log.cleaner.threads") if config.bool("log.cleaner.enable") else 0
        while len(self._workers) < wanted:
            self._workers.append(CleanerWorker(self, f"cleaner-{len(self._workers)}"))
        for worker in self._workers[wanted:]:
            worker.retire()
        del self._workers[wanted:]

    async def choose(self) -> Cleanable | None:
        """The log with the largest dirty ratio among those worth cleaning; reserves it."""
        for partition, (log, _) in list(self.uncleanable.items()):
            if not self.logs.is_current(log):
                del self.uncleanable[partition]
                self._crashes.pop(partition, None)
        best: Cleanable | None = None

        def check(log: Log) -> None:
            nonlocal best
            partition = log.partition
            if log.config.compacts and partition not in self._busy and partition not in self.uncleanable:
                candidate = self._check(log)
                if candidate is not None and (best is None or candidate.dirty_ratio > best.dirty_ratio):
                    best = candidate

        steps = for_each(list(self.logs.logs.values()), check)
        await self._scheduler.run(steps, priority=Priority.BACKGROUND, name="choosing a log to compact")
        if best is None or best.log.partition in self._busy:
            return None
        # Requests were served between the slices: the log may have been truncated.
        best = self._check(best.log)
        if best is None:
            return None
        self._busy.add(best.log.partition)
        return best

    def _check(self, log: Log) -> Cleanable | None:
        directory = self.logs.directory_of(log.partition)
        if directory is None or not self.logs.is_current(log):
            return None
        try:
            found = find_cleanable(log, directory.checkpoints.cleaned.get(log.partition), self.now_ms)
        except DiskError as error:
            self.partitions.storage_failed(error)
            return None
        return found if found is not None and found.is_worth_cleaning else None

    def reserve(self, log: Log) -> bool:
        """Exclude a log from compaction until ``release``; False if it is being compacted."""
        if log.partition in self._busy or log.swap is not None:
            return False
        self._busy.add(log.partition)
        return True

    def on_repaired(self, log: Log) -> None:
        """A damaged segment was replaced: the log may be compacted again."""
        self.uncleanable.pop(log.partition, None)

    def release(self, log: Log) -> None:
        self._busy.discard(log.partition)

    async def write_recovery_point(self, chosen: Cleanable) -> None:
        """Checkpoint that everything up to the end of the compaction is synced.

        Only then may the log have gaps: recovery takes a gap above the recovery point for lost records.
        """
        directory = self.logs.directory_of(chosen.log.partition)
        if directory is None:
            raise Abandoned
        write = directory.checkpoints.recovery_points()
        if write is not None:
            await self.partitions.run_jobs([write])
            if not write.done:
                raise Abandoned

    async def on_done(self, chosen: Cleanable, stats: CleanStats) -> None:
        log = chosen.log
        self.rounds += 1
        self.bytes_before += stats.bytes_before
        self.bytes_after += stats.bytes_after
        self._crashes.pop(log.partition, None)
        directory = self.logs.directory_of(log.partition)
        if directory is None or not self.logs.is_current(log):
            return
        directory.checkpoints.cleaned[log.partition] = chosen.end_offset
        write = directory.checkpoints.cleaned_offsets()
        if write is not None:
            await self.partitions.run_jobs([write])
        logger.info(
            "Compacted %s up to offset %d: %d of %d bytes and %d of %d records remain (%.1f s, %.0f MB/s)",
            log.partition,
            chosen.end_offset,
            stats.bytes_after,
            stats.bytes_before,
            stats.records_after,
            stats.records_before,
            stats.seconds,
            stats.bytes_before / 1e6 / max(stats.seconds, 1e-6),
        )

    def on_failure(self, log: Log, failure: Failure) -> None:
        if failure.disk_errno is not None:
            cause = OSError(failure.disk_errno or None, failure.message)
            error = DiskError(log.directory, failure.path, "compact", cause)
            # All old segments still exist: a full disk only fails this compaction.
            error.fatal = error.fatal and not error.disk_full
            if not error.not_found or self.logs.is_current(log):
                self.partitions.storage_failed(error)
            return
        self.uncleanable[log.partition] = log, failure.message
        logger.error(
            "Cannot compact %s; it is skipped until the next start: %s",
            log.partition,
            failure.message,
        )

    def on_crash(self, log: Log, error: CleanerDied) -> None:
        if self._stopping:
            return
        crashes = self._crashes[log.partition] = self._crashes.get(log.partition, 0) + 1
        logger.warning("The cleaner process crashed while compacting %s: %s", log.partition, error)
        if crashes >= MAX_CRASHES_PER_LOG:
            self.on_failure(log, Failure(f"the cleaner process crashed {crashes} times: {error}"))
