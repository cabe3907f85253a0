"""The periodic tasks of a broker's logs, each at the interval of its configuration key.

Tasks that only compute run on the event loop in slices. Jobs that wait for the disk run in the housekeeping
thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, for_each
from ruslo.config.broker import BrokerConfig
from ruslo.storage.log import Log
from ruslo.storage.log_manager import Job, LogManager

logger = logging.getLogger(__name__)

BACKGROUND_SYNC_INTERVAL_MS = 1_000
"""A closed segment is synced within this time after a roll."""
DELETION_INTERVAL_MS = 5_000
IDLE_FILES_INTERVAL_MS = 60_000
FIRST_RETENTION_CHECK_MS = 30_000
"""Soon after the start, so that a broker that restarts often deletes old segments too."""


class PeriodicTask(NamedTuple):
    name: str
    interval_ms: int
    run: Callable[[], Awaitable[None]]
    first_ms: int | None = None
    """The delay of the first run, if it is not the interval."""


class PeriodicTasks:
    def __init__(
        self, config: BrokerConfig, logs: LogManager, partitions: PartitionManager, scheduler: Scheduler
    ) -> None:
        def in_thread(jobs: Callable[[], Sequence[Job]]) -> Callable[[], Awaitable[None]]:
            return lambda: partitions.run_jobs(jobs())

        def for_each_log(act: Callable[[Log], None]) -> Callable[[], Awaitable[None]]:
            return in_slices(lambda: for_each(list(logs.logs.values()), act))

        def in_slices(steps: Callable[[], Steps[None]]) -> Callable[[], Awaitable[None]]:
            return lambda: scheduler.run(steps(), priority=Priority.BACKGROUND, name="periodic task of logs")

        self._logs = logs
        retention_ms = config.int("log.retention.check.interval.ms")
        self._periodic: tuple[PeriodicTask, ...] = (
            PeriodicTask(
                "retention",
                retention_ms,
                in_slices(self._check_retention),
                min(FIRST_RETENTION_CHECK_MS, retention_ms),
            ),
            PeriodicTask(
                "ISR shrink check",
                config.int("replica.lag.time.max.ms") // 2,
                partitions.shrink_isrs,
            ),
            PeriodicTask("background sync", BACKGROUND_SYNC_INTERVAL_MS, partitions.sync_due_logs),
            PeriodicTask(
                "producer expiry",
                config.int("producer.id.expiration.check.interval.ms"),
                for_each_log(logs.expire_producers_of),
            ),
            PeriodicTask(
                "closing of idle files", IDLE_FILES_INTERVAL_MS, for_each_log(Log.release_idle_files)
            ),
            PeriodicTask("deletion", DELETION_INTERVAL_MS, in_thread(logs.trash_jobs)),
            PeriodicTask(
                "high watermark checkpoint",
                config.int("replica.high.watermark.checkpoint.interval.ms"),
                in_thread(logs.high_watermark_jobs),
            ),
            PeriodicTask(
                "recovery point checkpoint",
                config.int("log.flush.offset.checkpoint.interval.ms"),
                in_thread(logs.recovery_point_jobs),
            ),
            PeriodicTask(
                "log start checkpoint",
                config.int("log.flush.start.offset.checkpoint.interval.ms"),
                in_thread(logs.log_start_jobs),
            ),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._repeat(each), name=each.name) for each in self._periodic]

    async def stop(self) -> None:
        await cancel_all(*self._tasks)

    def _check_retention(self) -> Steps[None]:
        """Delete one segment in each step, which takes a few file system calls."""
        for log in list(self._logs.logs.values()):
            while self._logs.check_retention_of(log, max_segments=1):
                yield
            yield

    async def _repeat(self, task: PeriodicTask) -> None:
        delay_ms = task.interval_ms if task.first_ms is None else task.first_ms
        while True:
            await asyncio.sleep(delay_ms / 1000)
            try:
                await task.run()
            except Exception:
                # The task runs again at its interval: one damaged log must not stop it for all others.
                logger.exception("%s failed", task.name)
            delay_ms = task.interval_ms
