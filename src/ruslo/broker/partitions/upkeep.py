"""The periodic chores of a broker's logs, each at the interval that its configuration key names.

What only computes runs on the event loop, in slices; what waits for the disk goes to the housekeeping thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, for_each
from ruslo.config.broker import BrokerConfig
from ruslo.storage.log import Log
from ruslo.storage.log_manager import Job, LogManager

logger = logging.getLogger(__name__)

BACKGROUND_SYNC_MS = 1_000
"""How soon after a roll the sealed segment is synced."""
TRASH_MS = 5_000
IDLE_FILES_MS = 60_000
FIRST_RETENTION_CHECK_MS = 30_000
"""Soon after the start, so that a broker that is restarted often deletes too."""


class Chore(NamedTuple):
    name: str
    interval_ms: int
    run: Callable[[], Awaitable[None]]
    first_ms: int | None = None
    """Until the first time, when that is not the interval."""


class Upkeep:
    def __init__(
        self, config: BrokerConfig, logs: LogManager, partitions: PartitionManager, scheduler: Scheduler
    ) -> None:
        def in_thread(jobs: Callable[[], Sequence[Job]]) -> Callable[[], Awaitable[None]]:
            return lambda: partitions.run_jobs(jobs())

        def log_by_log(act: Callable[[Log], None]) -> Callable[[], Awaitable[None]]:
            return in_slices(lambda: for_each(list(logs.logs.values()), act))

        def in_slices(steps: Callable[[], Steps[None]]) -> Callable[[], Awaitable[None]]:
            return lambda: scheduler.run(steps(), priority=Priority.BACKGROUND, name="upkeep of logs")

        self._logs = logs
        retention_ms = config.int("log.retention.check.interval.ms")
        self._chores: tuple[Chore, ...] = (
            Chore(
                "retention",
                retention_ms,
                in_slices(self._check_retention),
                min(FIRST_RETENTION_CHECK_MS, retention_ms),
            ),
            Chore(
                "check of in-sync replicas",
                config.int("replica.lag.time.max.ms") // 2,
                partitions.shrink_isrs,
            ),
            Chore("background sync", BACKGROUND_SYNC_MS, _on_loop(partitions.sync_due_logs)),
            Chore(
                "producer expiry",
                config.int("producer.id.expiration.check.interval.ms"),
                log_by_log(logs.expire_producers_of),
            ),
            Chore("release of idle files", IDLE_FILES_MS, log_by_log(Log.release_idle_files)),
            Chore("deletion", TRASH_MS, in_thread(logs.trash_jobs)),
            Chore(
                "high watermark checkpoint",
                config.int("replica.high.watermark.checkpoint.interval.ms"),
                in_thread(logs.high_watermark_jobs),
            ),
            Chore(
                "recovery point checkpoint",
                config.int("log.flush.offset.checkpoint.interval.ms"),
                in_thread(logs.recovery_point_jobs),
            ),
            Chore(
                "log start checkpoint",
                config.int("log.flush.start.offset.checkpoint.interval.ms"),
                in_thread(logs.log_start_jobs),
            ),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._repeat(chore), name=chore.name) for chore in self._chores]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check_retention(self) -> Steps[None]:
        """Delete a segment in each step: that takes some calls to the file system."""
        for log in list(self._logs.logs.values()):
            while self._logs.check_retention_of(log, at_most=1):
                yield
            yield

    async def _repeat(self, chore: Chore) -> None:
        delay_ms = chore.interval_ms if chore.first_ms is None else chore.first_ms
        while True:
            await asyncio.sleep(delay_ms / 1000)
            try:
                await chore.run()
            except Exception:
                # The next round comes anyway; one bad log must not end the upkeep of all others.
                logger.exception("%s failed", chore.name)
            delay_ms = chore.interval_ms


def _on_loop(action: Callable[[], object]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        action()

    return run
