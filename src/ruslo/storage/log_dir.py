"""A log directory, one of ``log.dirs``: its lock, clean shutdown file, checkpoints and logs."""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ruslo.config.limits import LONG_MAX
from ruslo.config.log_config import LogConfig
from ruslo.model.clock import Clock
from ruslo.model.errors import CorruptLogError, StorageError
from ruslo.model.ids import UNASSIGNED_DIR, Uuid, random_uuid
from ruslo.model.topics import METADATA_TOPIC, TopicPartition
from ruslo.storage.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointedState,
    CheckpointFile,
    CheckpointWrite,
    read_offsets,
)
from ruslo.storage.clean_shutdown import (
    UNKNOWN_BROKER_EPOCH,
    remove_clean_shutdown_file,
    write_clean_shutdown_file,
)
from ruslo.storage.dir_lock import DirLock
from ruslo.storage.disk import Disk, DiskError
from ruslo.storage.log import Log
from ruslo.storage.log_creation import create_log
from ruslo.storage.log_loader import open_log
from ruslo.storage.log_sync import run_together
from ruslo.storage.meta_properties import MetaProperties, read_meta_properties
from ruslo.storage.partition_files import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    parse_directory_name,
    renamed_directory,
    segment_bases,
)
from ruslo.storage.recovery_progress import RecoveryProgress
from ruslo.storage.trash import Trash

_REMOTE_INDEX_CACHE = "remote-log-index-cache"
_METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"

logger = logging.getLogger(__name__)


class LogDir:
    """``logs`` has every log of the directory except the metadata log, which its driver owns."""

    def __init__(self, disk: Disk, clock: Clock, new_uuid: Callable[[], Uuid] = random_uuid) -> None:
        """Lock the directory and read its checkpoints. If the disk fails, the directory is offline at once.

        Raises StorageError if another node uses the directory, or if its files are invalid.
        """
        self.disk = disk
        self.clock = clock
        self._new_uuid = new_uuid
        self.trash = Trash(disk, clock)
        self.failure: StorageError | None = None
        self.holds_partitions = True
        """False for a directory that has only the metadata log (``metadata.log.dir``)."""
        self.cordoned = False
        """Whether new replicas go to other directories if possible (KIP-1066)."""
        self.logs: dict[TopicPartition, Log] = {}
        self.meta: MetaProperties | None = None
        self.was_clean = False
        self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH
        self.cleaned: dict[TopicPartition, int] = {}
        """The offset up to which each log is compacted."""
        self.recovery = RecoveryProgress(disk.directory, clock)
        self._recovery_points: dict[TopicPartition, int] = {}
        self._recovery_points_known = False
        self._cleaned_known = True
        self._log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._lock: DirLock | None = None
        try:
            self._open()
        except DiskError as error:
            # The disk is missing or not writable: other log directories stay online.
            logger.error("Log directory %s cannot be used: %s", self.path, error)
            self._unlock(remove=False)
            self.failure = error
        except BaseException:
            self._unlock(remove=False)
            raise
        self._recovery_point_file = CheckpointFile(disk, f"{self.path}/{RECOVERY_POINTS}")
        self._log_start_file = CheckpointFile(disk, f"{self.path}/{LOG_STARTS}")
        self._high_watermark_file = CheckpointFile(disk, f"{self.path}/{HIGH_WATERMARKS}")
        self._cleaned_file = CheckpointFile(disk, f"{self.path}/{CLEANED}")

    def _open(self) -> None:
        self._lock = DirLock(self.disk)
        self.meta = read_meta_properties(self.disk)
        epoch = remove_clean_shutdown_file(self.disk)
        self.was_clean = epoch is not None
        self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH if epoch is None else epoch
        recovery_points = self._read_checkpoint(RECOVERY_POINTS)
        self._recovery_points_known = recovery_points is not None
        self._recovery_points = recovery_points or {}
        self._log_starts = self._read_checkpoint(LOG_STARTS) or {}
        self._high_watermarks = self._read_checkpoint(HIGH_WATERMARKS) or {}
        cleaned = self._read_checkpoint(CLEANED)
        is_there = self.disk.status(f"{self.path}/{CLEANED}") is not None
        self._cleaned_known = cleaned is not None or not is_there
        self.cleaned = cleaned or {}

    def _unlock(self, *, remove: bool) -> None:
        if self._lock is not None:
            self._lock.release(remove=remove)
            self._lock = None

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int] | None:
        try:
            return read_offsets(self.disk, f"{self.path}/{name}")
        except CorruptLogError as error:
            # Without it more than necessary is recovered or replicated; nothing is lost.
            logger.warning("Ignoring a checkpoint, which will be rewritten: %s", error)
            return None

    @property
    def path(self) -> str:
        return self.disk.directory

    @property
    def directory_id(self) -> Uuid:
        return self.meta.directory_id if self.meta is not None else UNASSIGNED_DIR

    @property
    def online(self) -> bool:
        return self.failure is None

    # --- loading ----------------------------------------------------------------------

    def load(
        self,
        config_for: Callable[[str], LogConfig],
        *,
        delete_delay_ms: int,
        producer_expiration_ms: int,
        recovery_threads: int = 1,
    ) -> None:
        """Open every log in the directory. ``config_for`` returns the config of a topic."""
        partitions = self._partitions_on_disk(delete_delay_ms)
        now_ms = self.clock.now_ms()

        def open_one(partition: TopicPartition, on_recovered: Callable[[], None] | None = None) -> Log:
            return open_log(
                self.disk,
                f"{self.path}/{partition}",
                partition,
                config_for(partition.topic),
                self.trash,
                now_ms,
                CheckpointedState(
                    clean=self.was_clean,
                    recovery_point=self._recovery_points.get(partition, 0),
                    start_offset=self._log_starts.get(partition, 0),
                    high_watermark=self._high_watermarks.get(partition, 0),
                    gaps_below=self._compacted_at_most(partition),
                    compacted_below=self._compacted_below(partition),
                ),
                producer_expiration_ms,
                on_recovered,
            )

        # After a clean shutdown there is little I/O to wait for, so threads would not help.
        if self.was_clean:
            self.logs = {partition: open_one(partition) for partition in partitions}
        else:
            self._recover(partitions, open_one, recovery_threads)
        if not self._recovery_points_known:
            self._write_first_recovery_points(now_ms)

    def _recover(
        self,
        partitions: list[TopicPartition],
        open_one: Callable[[TopicPartition, Callable[[], None]], Log],
        threads: int,
    ) -> None:
        unsynced = {partition: self._unsynced_segments(partition) for partition in partitions}
        self.recovery.begin(len(partitions), sum(unsynced.values()))

        def recover_one(partition: TopicPartition) -> Log:
            part = self.recovery.begin_log(unsynced[partition])
            log = open_one(partition, part.segment_done)
            part.finish(log.size_bytes)
            return log

        with contextlib.ExitStack() as stack:
            logs: Iterator[Log] = map(recover_one, partitions)
            if threads > 1:
                pool = ThreadPoolExecutor(threads, thread_name_prefix="log-recovery")
                logs = stack.enter_context(pool).map(recover_one, partitions)
            for log in logs:
                self.logs[log.partition] = log
        self.recovery.finish()

    def _write_first_recovery_points(self, now_ms: int) -> None:
        """Sync all logs and write the first recovery points, so that later no existing gap counts as a loss.

        On a full disk this is left to the next flush and checkpoint.
        """
        try:
            self._flush_all(now_ms)
            write = self.recovery_points()
            if write is not None:
                write.run()
        except DiskError as error:
            if not error.disk_full:
                raise
            logger.warning("Recovery points cannot be written yet: %s", error)

    def _flush_all(self, now_ms: int) -> None:
        dirty = [(log, log.sync_targets()) for log in self.logs.values() if log.is_dirty]
        run_together([targets for _, targets in dirty])
        for log, targets in dirty:
            log.mark_flushed(targets, now_ms)

    def _compacted_at_most(self, partition: TopicPartition) -> int:
        """An offset that compaction has not passed: the recovery point is on disk before it leaves a gap."""
        if not self._recovery_points_known:
            return LONG_MAX
        return max(self._recovery_points.get(partition, 0), self.cleaned.get(partition, 0))

    def _compacted_below(self, partition: TopicPartition) -> int:
        """The offset up to which the log is compacted; without a readable checkpoint it may be anywhere."""
        return self.cleaned.get(partition, 0) if self._cleaned_known else LONG_MAX

    def _unsynced_segments(self, partition: TopicPartition) -> int:
        """How many segments of a log must be read after an unclean shutdown, by their names."""
        bases = segment_bases(self.disk.list_names(f"{self.path}/{partition}"))
        return len(bases) - max(bisect_right(bases, self._recovery_points.get(partition, 0)) - 1, 0)

    def _partitions_on_disk(self, delete_delay_ms: int) -> list[TopicPartition]:
        partitions = []
        for name in self.disk.list_directories(self.path):
            if name.endswith(DELETE_SUFFIX):
                self.trash.add_directory(f"{self.path}/{name}", delete_delay_ms)
            elif name.endswith((STRAY_SUFFIX, FUTURE_SUFFIX)):
                logger.warning("Skipping %s/%s: it is not a partition in use", self.path, name)
            elif name not in (_METADATA_DIRECTORY, _REMOTE_INDEX_CACHE):
                partition = parse_directory_name(name)
                if partition is None:
                    raise StorageError(
                        f"{self.path}/{name} is not a partition directory. Move it out of the log directory"
                    )
                partitions.append(partition)
        return partitions

    # --- creating and deleting --------------------------------------------------------

    def create(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
        known = (self._recovery_points, self._log_starts, self._high_watermarks, self.cleaned)
        files = (
            self._recovery_point_file,
            self._log_start_file,
            self._high_watermark_file,
            self._cleaned_file,
        )
        if any(partition in each for each in known) or any(file.is_behind for file in files):
            # A topic of this name was deleted: its checkpointed offsets must not apply to the new one.
            self.write_checkpoints()
        path = f"{self.path}/{partition}"
        log = create_log(self.disk, path, partition, topic_id, config, self.trash, self.clock.now_ms())
        self.logs[partition] = log
        return log

    def delete(self, partition: TopicPartition, delay_ms: int) -> None:
        """Rename the partition directory now and delete it after the delay."""
        self.trash.add_directory(self._rename_away(partition, DELETE_SUFFIX), delay_ms)

    def mark_stray(self, partition: TopicPartition) -> str:
        """Rename a log that the cluster metadata does not have to ``-stray``; returns the new path."""
        return self._rename_away(partition, STRAY_SUFFIX)

    def _rename_away(self, partition: TopicPartition, suffix: str) -> str:
        log = self.logs[partition]
        log.complete_swap()
        target = f"{self.path}/{renamed_directory(partition, suffix, self._new_uuid())}"
        self.disk.rename(log.path, target)
        del self.logs[partition]
        log.move_to(target)
        log.release()
        return target

    def take_offline(self, error: StorageError) -> list[TopicPartition]:
        """Stop using the directory until the next start; returns its partitions."""
        if self.failure is not None:
            return []
        self.failure = error
        self.recovery = RecoveryProgress(self.path, self.clock)
        logger.error("Log directory %s goes offline: %s", self.path, error)
        for log in self.logs.values():
            log.fail(error)
        return list(self.logs)

    # --- checkpoints and shutdown -----------------------------------------------------

    def recovery_points(self) -> CheckpointWrite | None:
        """Prepare a write of the recovery points; None if the file has them already."""
        self._recovery_points = {
            partition: _to_checkpoint(log, log.recovery_point) for partition, log in self.logs.items()
        }
        return self._recovery_point_file.prepare(self._recovery_points)

    def log_starts(self) -> CheckpointWrite | None:
        self._log_starts = {
            partition: log.start_offset
            for partition, log in self.logs.items()
            if log.start_offset > log.segments[0].base_offset
        }
        return self._log_start_file.prepare(self._log_starts)

    def high_watermarks(self) -> CheckpointWrite | None:
        self._high_watermarks = {
            partition: _to_checkpoint(log, log.high_watermark) for partition, log in self.logs.items()
        }
        return self._high_watermark_file.prepare(self._high_watermarks)

    def cleaned_offsets(self) -> CheckpointWrite | None:
        self.cleaned = {
            partition: min(offset, self.logs[partition].end_offset)
            for partition, offset in self.cleaned.items()
            if partition in self.logs
        }
        return self._cleaned_file.prepare(self.cleaned)

    def checkpointed_end_offset(self, partition: TopicPartition) -> int | None:
        """The end offset that the checkpoints of the last run prove; None if they do not have the log."""
        known = [
            offsets[partition]
            for offsets in (self._recovery_points, self._high_watermarks)
            if partition in offsets
        ]
        return max(known, default=None)

    def overstates(self, log: Log) -> bool:
        """Whether a checkpoint on disk has an offset that the log does not have any more."""
        partition = log.partition
        return (
            self._recovery_points.get(partition, 0) > log.recovery_point
            or self._high_watermarks.get(partition, 0) > log.high_watermark
            or self.cleaned.get(partition, 0) > log.end_offset
        )

    def write_checkpoints(self) -> None:
        for write in (
            self.recovery_points(),
            self.log_starts(),
            self.high_watermarks(),
            self.cleaned_offsets(),
        ):
            if write is not None:
                write.run()

    def stop(self, broker_epoch: int) -> None:
        """Close every log and write the clean shutdown file; an offline directory is only unlocked."""
        if self.failure is not None:
            self._unlock(remove=False)
            return
        now_ms = self.clock.now_ms()
        for log in self.logs.values():
            log.prepare_close()
        self._flush_all(now_ms)
        for log in self.logs.values():
            log.release()
        self.write_checkpoints()
        write_clean_shutdown_file(self.disk, broker_epoch)
        self._unlock(remove=True)

    def abandon(self) -> None:
        """Release everything without writing: for the next start this is an unclean shutdown."""
        for log in self.logs.values():
            log.release()
        self._unlock(remove=False)


def _to_checkpoint(log: Log, offset: int) -> int:
    """The offset to checkpoint; the next start must detect a lost tail too, until it was handled."""
    return offset if log.lost_tail is None else max(offset, log.lost_tail.end_offset)
