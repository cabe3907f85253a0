"""The move of one replica to another log directory of this broker (KIP-113, KIP-858).

1. The copy follows the log until it has almost caught up. Files are read in a thread, the copy is appended to
   in the slices that requests leave. Clients and followers use the log meanwhile.
2. The controller is told the new directory. If the broker dies from here on, the metadata may name a
   directory that does not have the log yet. The next start finds the log where it is, reports that, and goes
   on.
3. The last batches are copied, and the log continues in the files of the copy: in one step of the event
   loop.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Protocol

from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.broker.scheduling.scheduler import Priority, Scheduler
from ruslo.model.errors import KafkaError
from ruslo.model.ids import LOST_DIR, Uuid
from ruslo.model.log_ids import log_ids
from ruslo.model.topics import TopicPartition
from ruslo.storage.disk import DiskError
from ruslo.storage.log import Log
from ruslo.storage.log_copy import LogCopy, whole_batches_up_to
from ruslo.storage.log_dir import LogDir
from ruslo.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

READ_BYTES = 1 << 20
"""Bytes that are read at a time, and the most that is left for the step in which the log is replaced."""
APPEND_BYTES = 128 << 10
"""Bytes that are appended at a time: this takes less than a slice of the event loop."""
MAX_FINAL_READS = 2
SYNC_BYTES = 64 << 20
"""After this many bytes the copy is synced: the disk is not left with all of it at the end."""
RETRY_S = 1.0


class DirectoryReports(Protocol):
    """Reports the log directory of each replica of this broker to the controller (KIP-858)."""

    def assign(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None: ...

    def confirm(self, topic_id: Uuid, index: int, directory_id: Uuid) -> asyncio.Future[bool]:
        """As ``assign``; the result is whether the controller has accepted the directory."""
        ...


class Reservations(Protocol):
    """Excludes a log from compaction: its segments must not be replaced while it moves."""

    def reserve(self, log: Log) -> bool: ...

    def release(self, log: Log) -> None: ...


@dataclass(frozen=True, slots=True)
class MoveServices:
    """What all moves of a broker share."""

    logs: LogManager
    partitions: PartitionManager
    reports: DirectoryReports
    compaction: Reservations
    quota: ReplicationQuota
    """``replica.alter.log.dirs.io.max.bytes.per.second``"""
    scheduler: Scheduler
    slots: asyncio.Semaphore
    """As many moves copy at the same time as there are log directories, as in Kafka."""


class _Ended(Exception):
    """The log or its copy is not in use any more."""


@dataclass(slots=True, eq=False)
class LogDirMove:
    services: MoveServices
    partition: Partition
    source: LogDir
    target: LogDir
    log: Log
    future: Log
    reported: bool = False
    """Whether the metadata may name the target although the log is still in the source."""
    _copy: LogCopy = field(init=False)
    _checkpointed_start: int | None = None
    """The log start offset of the copy in the checkpoint of the target; None: it was not needed there."""

    @property
    def tp(self) -> TopicPartition:
        return self.log.partition

    async def run(self) -> None:
        services = self.services
        async with services.slots:
            while True:
                try:
                    await self._run_reserved()
                except _Ended:
                    self._clean_up()
                except DiskError as error:
                    if self._may_retry(error):
                        await asyncio.sleep(RETRY_S)
                        continue
                    self._clean_up()
                except KafkaError as error:
                    logger.error(
                        "Cannot move %s to %s: %s. The move is abandoned",
                        self.tp,
                        self.target.path,
                        error,
                        extra=log_ids(partition=self.tp),
                    )
                    self.cancel()
                return

    def cancel(self) -> None:
        """Delete the copy; the log stays where it is."""
        self.revert_report()
        if self.target.futures.get(self.tp) is self.future:
            try:
                self.services.logs.drop_future(self.tp)
            except DiskError as error:
                logger.error("Cannot delete the copy of %s: %s", self.tp, error)

    def revert_report(self) -> None:
        """Report the directory in which the log is."""
        if self.reported:
            self.reported = False
            self._report(self.source.directory_id)

    def on_directory_failure(self, directory: LogDir) -> None:
        if directory is self.target:
            self.revert_report()
        elif directory is self.source and self.reported:
            # The controller believes that the replica is in the target.
            self.reported = False
            self._report(LOST_DIR)

    def _report(self, directory_id: Uuid) -> None:
        self.services.reports.assign(self.partition.topic_id, self.partition.index, directory_id)

    # -- the steps of the move -------------------------------------------------------------------------------

    async def _run_reserved(self) -> None:
        compaction, log = self.services.compaction, self.log
        while not compaction.reserve(log):
            await asyncio.sleep(RETRY_S)
            self._require_active()
        try:
            await self._move()
        finally:
            compaction.release(log)

    async def _move(self) -> None:
        self._require_active()
        self._copy = LogCopy(self.log, self.future)
        await self._catch_up()
        await self._sync()
        while not self.reported:
            self.reported = True
            accepted = await self.services.reports.confirm(
                self.partition.topic_id, self.partition.index, self.target.directory_id
            )
            self._require_active()
            if not accepted:
                self.reported = False
                await asyncio.sleep(RETRY_S)
                self._require_active()
        while True:
            await self._sync()
            await self._catch_up()
            if self._replace():
                return

    async def _catch_up(self) -> None:
        """Copy until at most ``READ_BYTES`` are left."""
        log, copy, quota = self.log, self._copy, self.services.quota
        unsynced_bytes = 0
        while True:
            self._require_active()
            copy.follow_source()
            chunk = copy.next_slice(READ_BYTES)
            if chunk is None:
                return
            is_last = chunk.position + chunk.size == log.active.size and chunk.file is log.active.file
            if is_last and chunk.size < READ_BYTES:
                return
            data = await asyncio.to_thread(chunk.read)
            for piece in whole_batches_up_to(data, APPEND_BYTES):
                await self.services.scheduler.checkpoint(Priority.BACKGROUND)
                self._require_active()
                if not copy.append(piece, self.services.logs.clock.now_ms()):
                    break
            quota.record(len(data))
            unsynced_bytes += len(data)
            if unsynced_bytes >= SYNC_BYTES:
                unsynced_bytes = 0
                await self._flush()
            while pause_ms := quota.pause_ms():
                # The move may be over before a low rate allows the next chunk.
                await asyncio.sleep(min(pause_ms / 1000, RETRY_S))
                self._require_active()

    async def _flush(self) -> None:
        targets = self.future.sync_targets()
        await asyncio.to_thread(targets.run)
        self._require_active()
        self.future.mark_flushed(targets, self.services.logs.clock.now_ms())

    async def _sync(self) -> None:
        """Sync the copy and write its checkpoints, so that the replacement itself has little to write."""
        await self._flush()
        checkpoints = self.target.checkpoints
        cleaned = self.source.checkpoints.cleaned.get(self.tp)
        if cleaned is not None:
            checkpoints.cleaned[self.tp] = min(cleaned, self.future.end_offset)
        start_offset = self._start_to_checkpoint()
        writes = [
            write
            for write in (
                checkpoints.recovery_points(),
                checkpoints.log_starts(),
                checkpoints.high_watermarks(),
                checkpoints.cleaned_offsets(),
            )
            if write is not None
        ]
        await self.services.partitions.run_jobs(writes)
        self._require_active()
        if all(write.done for write in writes):
            self._checkpointed_start = start_offset

    def _start_to_checkpoint(self) -> int | None:
        """The log start offset of the copy, if the names of its segments do not say it."""
        start_offset = self.future.start_offset
        return start_offset if start_offset > self.future.segments[0].base_offset else None

    def _replace(self) -> bool:
        """Copy the rest and replace the log, without serving requests in between; False: not yet."""
        self._require_active()
        services, copy = self.services, self._copy
        now_ms = services.logs.clock.now_ms()
        copy.follow_source()
        for _ in range(MAX_FINAL_READS):
            chunk = copy.next_slice(READ_BYTES)
            if chunk is None:
                break
            data = chunk.read()
            copy.append(data, now_ms)
            services.quota.record(len(data))
        # Without the checkpoint deleted records would come back after a crash.
        if not copy.has_caught_up or self._start_to_checkpoint() not in (None, self._checkpointed_start):
            return False
        services.logs.replace_by_future(copy)
        self.reported = False
        services.partitions.log_moved(self.partition)
        logger.info(
            "Moved %s from %s to %s",
            self.tp,
            self.source.path,
            self.target.path,
            extra=log_ids(partition=self.tp),
        )
        return True

    # -- ends ------------------------------------------------------------------------------------------------

    def _require_active(self) -> None:
        if (
            self.partition.gone
            or not self.services.logs.is_current(self.log)
            or self.target.futures.get(self.tp) is not self.future
        ):
            raise _Ended

    def _may_retry(self, error: DiskError) -> bool:
        """Whether the move can go on after an error, when there is space again for example."""
        full_target = error.directory == self.target.path and error.disk_full
        can_go_on = not error.fatal
        if full_target:
            # Nothing but the copy is lost: the directory stays online.
            error.fatal = False
        self.services.partitions.storage_failed(error)
        if full_target and not can_go_on:
            logger.error("The move of %s to %s is abandoned: the disk is full", self.tp, self.target.path)
            self.cancel()
        return can_go_on

    def _clean_up(self) -> None:
        """Delete the copy if the replica is gone. If a directory failed, the next start goes on."""
        if self.target.futures.get(self.tp) is not self.future:
            return
        if self.log.failure is None:
            self.cancel()
        else:
            del self.target.futures[self.tp]
            self.future.release()
