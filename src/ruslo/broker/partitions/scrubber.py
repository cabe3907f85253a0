"""The scrubber: reads every segment of this broker periodically, at a limited rate, to find damage.

A thread reads and computes checksums in slices of ``SLICE_BYTES`` with a pause after each, so clients do not
notice. The thread keeps its normal CPU priority: it shares the interpreter lock with the event loop, which
would have to wait for a thread that the system does not schedule. Damage is added to the broker's list of
lost data, and ``ReplicaRepair`` fetches the damaged ranges from another replica.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.partitions.replica_repair import ReplicaRepair
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.model.errors import StorageError
from ruslo.model.log_ids import log_ids
from ruslo.model.topics import TopicPartition
from ruslo.storage.disk import DiskError
from ruslo.storage.log import Log
from ruslo.storage.log_manager import LogManager
from ruslo.storage.lost_data import LossKind, LostData
from ruslo.storage.producer_state import ProducerStates
from ruslo.storage.scrub import SegmentScrub

logger = logging.getLogger(__name__)

SLICE_BYTES = 64 << 10
FIRST_SCRUB_MS = 60_000
"""The first scrub leaves the disk to a broker that has just started."""
REPORT_INTERVAL_MS = 5_000
"""Damage that a read finds is reported within this time."""

REPAIR_RETRY_INTERVAL_MS = 60_000


@dataclass(slots=True, eq=False)
class Scrubber:
    _configs: DynamicConfig
    _logs: LogManager
    _storage_failed: Callable[[StorageError], None]
    _repair: ReplicaRepair
    rounds: int = 0
    """Complete scrubs of all logs since the start."""
    bytes_checked: int = 0
    bytes_left: int = 0
    """Approximate bytes that the present scrub has not checked yet."""
    rebuilt_indexes: int = 0
    repaired_segments: int = 0
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="scrubber")
    )
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _reported: set[TopicPartition] = field(default_factory=set)
    _checking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _tried_ms: dict[TopicPartition, int] = field(default_factory=dict)
    """When the damaged segments of each log were last checked and, if possible, repaired."""

    @property
    def damaged_ranges(self) -> int:
        return sum(len(log.damage) for log in self._logs.logs.values() if log.damage)

    def start(self) -> None:
        self.report()
        self._tasks = [
            asyncio.create_task(self._run(), name="scrubber"),
            asyncio.create_task(self._report_periodically(), name="damage reporter"),
        ]

    async def stop(self) -> None:
        await cancel_all(*self._tasks)
        self._thread.shutdown(wait=True)

    async def _run(self) -> None:
        delay_ms = min(FIRST_SCRUB_MS, self._configs.current.int("ruslo.scrub.interval.ms"))
        while True:
            await asyncio.sleep(delay_ms / 1000)
            if self._configs.current.bool("ruslo.scrub.enable"):
                try:
                    await self.check_all()
                except Exception:
                    logger.exception("The scrub failed; the next one starts after ruslo.scrub.interval.ms")
            delay_ms = self._configs.current.int("ruslo.scrub.interval.ms")

    async def _report_periodically(self) -> None:
        """Report damage that the start or a read found, and repair it without waiting for the next scrub."""
        while True:
            await asyncio.sleep(REPORT_INTERVAL_MS / 1000)
            self.report()
            if self._configs.current.bool("ruslo.scrub.enable"):
                try:
                    await self.check_damaged()
                except Exception:
                    logger.exception("The check of damaged segments failed")

    async def check_damaged(self) -> None:
        """Check segments with known damage again, and repair them if there is another replica."""
        now_ms = self._logs.clock.monotonic_ms()
        for partition, log in list(self._logs.logs.items()):
            if not log.damage:
                continue
            tried_ms = self._tried_ms.get(partition)
            if tried_ms is None or (
                now_ms - tried_ms >= REPAIR_RETRY_INTERVAL_MS and self._repair.has_source(log)
            ):
                self._tried_ms[partition] = now_ms
                await self.check(log, {damage.segment_base for damage in log.damage.ranges()})

    # -- scrubbing ---------------------------------------------------------------------------------------

    async def check_all(self) -> None:
        """Check every log once."""
        logs = list(self._logs.logs.values())
        self.bytes_left = sum(log.size_bytes for log in logs)
        for log in logs:
            await self.check(log)
        self.bytes_left = 0
        self.rounds += 1

    async def check(self, log: Log, only: Collection[int] | None = None) -> None:
        """Check one log, or only the segments with these base offsets.

        Segments that are added meanwhile are checked by the next scrub.
        """
        producers: ProducerStates | None = None
        async with self._checking:
            for segment in list(log.segments):
                is_wanted = only is None or segment.base_offset in only
                if not is_wanted or not self._logs.is_current(log) or segment not in log.segments:
                    producers = None
                    continue
                try:
                    scrub = SegmentScrub(log, segment, producers)
                    await self._check_segment(scrub)
                    producers = await self._conclude(scrub)
                except DiskError as error:
                    producers = None
                    if self._logs.is_current(log) and segment in log.segments and not error.not_found:
                        self._storage_failed(error)

    async def _check_segment(self, scrub: SegmentScrub) -> None:
        loop = asyncio.get_running_loop()
        done = False
        while not done and self._logs.is_current(scrub.log):
            before = scrub.bytes_read
            done = await loop.run_in_executor(self._thread, scrub.step, SLICE_BYTES)
            read = scrub.bytes_read - before
            self.bytes_checked += read
            self.bytes_left = max(self.bytes_left - read, 0)
            await asyncio.sleep(read / self._configs.current.int("ruslo.scrub.bytes.per.second"))

    async def _conclude(self, scrub: SegmentScrub) -> ProducerStates | None:
        """Apply the findings; returns the producer states at the start of the next segment."""
        log = scrub.log
        if not self._logs.is_current(log) or not scrub.apply():
            return None
        if scrub.problems:
            self.rebuilt_indexes += 1
            problems = "; ".join(scrub.problems)
            logger.error("Rebuilt a damaged index: %s.", problems, extra=log_ids(partition=log.partition))
        if scrub.damage:
            self.report()
            if await self._repair.repair(scrub):
                self.repaired_segments += 1
                self.report()
        return scrub.producers

    # -- reporting ---------------------------------------------------------------------------------------

    def report(self) -> None:
        """Update the list of lost data to match the known damage of all logs."""
        lost = self._logs.lost_data
        damaged = {partition for partition, log in self._logs.logs.items() if log.damage}
        for partition in damaged:
            known = [each for each in lost if each.partition == partition and each.kind is LossKind.RECORDS]
            ranges = self._logs.logs[partition].damage.ranges()
            if len(ranges) < len(known):
                lost.forget(partition, LossKind.RECORDS)
            for each in ranges:
                lost.add(
                    LostData(partition, LossKind.RECORDS, each.problem, each.first_offset, each.end_offset)
                )
        for partition in self._reported - damaged:
            lost.forget(partition, LossKind.RECORDS)
            self._tried_ms.pop(partition, None)
        self._reported = damaged
