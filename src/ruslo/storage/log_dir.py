"""A log directory, one of ``log.dirs``: its lock, clean shutdown file, checkpoints and logs."""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ruslo.config.log_config import LogConfig
from ruslo.model.clock import Clock
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError, StorageError
from ruslo.model.ids import UNASSIGNED_DIR, Uuid, random_uuid
from ruslo.model.topics import METADATA_TOPIC, TopicPartition
from ruslo.storage.clean_shutdown import (
    UNKNOWN_BROKER_EPOCH,
    remove_clean_shutdown_file,
    write_clean_shutdown_file,
)
from ruslo.storage.dir_checkpoints import DirCheckpoints
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
    future_directory,
    parse_directory_name,
    parse_future_directory,
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
        self.recovery = RecoveryProgress(disk.directory, clock)
        self.futures: dict[TopicPartition, Log] = {}
        """Copies of logs that move here from another log directory."""
        self.checkpoints = DirCheckpoints(disk, ChainMap(self.logs, self.futures))
        self._futures_on_disk: dict[TopicPartition, str] = {}
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

    def _open(self) -> None:
        self._lock = DirLock(self.disk)
        self.meta = read_meta_properties(self.disk)
        epoch = remove_clean_shutdown_file(self.disk)
        self.was_clean = epoch is not None
        self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH if epoch is None else epoch
        self.checkpoints.read()

    def _unlock(self, *, remove: bool) -> None:
        if self._lock is not None:
            self._lock.release(remove=remove)
            self._lock = None

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
                self.checkpoints.state_of(partition, clean=self.was_clean),
                producer_expiration_ms,
                on_recovered,
            )

        # After a clean shutdown there is little I/O to wait for, so threads would not help.
        if self.was_clean:
            self.logs.update({partition: open_one(partition) for partition in partitions})
        else:
            self._recover(partitions, open_one, recovery_threads)
        self._load_futures(config_for, producer_expiration_ms)
        if not self.checkpoints.has_recovery_points:
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

    def _load_futures(self, config_for: Callable[[str], LogConfig], producer_expiration_ms: int) -> None:
        """Open the copies of logs that were moving here when the last run ended."""
        for partition, path in self._futures_on_disk.items():
            try:
                future = open_log(
                    self.disk,
                    path,
                    partition,
                    config_for(partition.topic),
                    self.trash,
                    self.clock.now_ms(),
                    self.checkpoints.state_of(partition, clean=self.was_clean),
                    producer_expiration_ms,
                )
            except CorruptLogError as error:
                # The log itself is in another directory.
                logger.warning("Skipping %s, a copy that cannot be opened: %s", path, error)
                continue
            future.lost_tail = None
            self.futures[partition] = future

    def _write_first_recovery_points(self, now_ms: int) -> None:
        """Sync all logs and write the first recovery points, so that later no existing gap counts as a loss.

        On a full disk this is left to the next flush and checkpoint.
        """
        try:
            self._flush_all(now_ms)
            write = self.checkpoints.recovery_points()
            if write is not None:
                write.run()
        except DiskError as error:
            if not error.disk_full:
                raise
            logger.warning("Recovery points cannot be written yet: %s", error)

    def _flush_all(self, now_ms: int) -> None:
        dirty = [(log, log.sync_targets()) for log in self._all_logs() if log.is_dirty]
        run_together([targets for _, targets in dirty])
        for log, targets in dirty:
            log.mark_flushed(targets, now_ms)

    def _all_logs(self) -> list[Log]:
        return [*self.logs.values(), *self.futures.values()]

    def _unsynced_segments(self, partition: TopicPartition) -> int:
        """How many segments of a log must be read after an unclean shutdown, by their names."""
        bases = segment_bases(self.disk.list_names(f"{self.path}/{partition}"))
        return len(bases) - max(bisect_right(bases, self.checkpoints.recovery_point(partition)) - 1, 0)

    def _partitions_on_disk(self, delete_delay_ms: int) -> list[TopicPartition]:
        partitions = []
        for name in self.disk.list_directories(self.path):
            if name.endswith(DELETE_SUFFIX):
                self.trash.add_directory(f"{self.path}/{name}", delete_delay_ms)
            elif name.endswith(FUTURE_SUFFIX) and self._find_future(name):
                continue
            elif name.endswith((STRAY_SUFFIX, FUTURE_SUFFIX)):
                logger.warning("Skipping %s/%s: it is not a partition in use", self.path, name)
            elif name not in (_METADATA_DIRECTORY, _REMOTE_INDEX_CACHE):
                partition = parse_directory_name(name)
                if partition is None:
                    raise StorageError(
                        f"{self.path}/{name} is not a partition directory. Move it out of the log directory"
                    )
                partitions.append(partition)
        for partition in partitions:
            path = self._futures_on_disk.pop(partition, None)
            if path is not None:
                logger.warning("Skipping %s: the log itself is in the same directory", path)
        return partitions

    def _find_future(self, name: str) -> bool:
        partition = parse_future_directory(name)
        if partition is None or partition in self._futures_on_disk:
            return False
        self._futures_on_disk[partition] = f"{self.path}/{name}"
        return True

    # --- creating and deleting --------------------------------------------------------

    def create(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
        if self.checkpoints.mention(partition):
            # A topic of this name was deleted: its checkpointed offsets must not apply to the new one.
            self.checkpoints.write_all()
        path = f"{self.path}/{partition}"
        log = create_log(self.disk, path, partition, topic_id, config, self.trash, self.clock.now_ms())
        self.logs[partition] = log
        return log

    def create_future(
        self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, start_offset: int
    ) -> Log:
        """Create the copy of a log that moves here; raises KafkaError if the topic name is too long."""
        name = future_directory(partition, self._new_uuid())
        if name is None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is too long for a move")
        if self.checkpoints.mention(partition):
            self.checkpoints.write_all()
        path, now_ms = f"{self.path}/{name}", self.clock.now_ms()
        future = create_log(self.disk, path, partition, topic_id, config, self.trash, now_ms)
        if start_offset > 0:
            try:
                future.truncate_fully_and_start_at(start_offset)
            except DiskError as error:
                if error.disk_full:
                    self.disk.remove_tree(path)
                    error.fatal = False
                raise
        self.futures[partition] = future
        return future

    def drop_future(self, partition: TopicPartition, delay_ms: int) -> None:
        """Rename a copy that is not needed any more, and delete it after the delay."""
        future = self.futures.pop(partition)
        self.checkpoints.cleaned.pop(partition, None)
        future.release()
        target = f"{self.path}/{renamed_directory(partition, DELETE_SUFFIX, self._new_uuid())}"
        self.disk.rename(future.path, target)
        self.trash.add_directory(target, delay_ms)

    def promote_future(self, partition: TopicPartition) -> Log:
        """Give a copy the name of the log, durably; the caller updates ``logs``."""
        future = self.futures[partition]
        path = f"{self.path}/{partition}"
        self.disk.rename(future.path, path)
        future.move_to(path)
        self.disk.sync_directory(self.path)
        return future

    def rename_deleted(self, partition: TopicPartition) -> str:
        """Rename the directory of a log that continues elsewhere, durably; returns its new path."""
        target = f"{self.path}/{renamed_directory(partition, DELETE_SUFFIX, self._new_uuid())}"
        self.disk.rename(self.logs[partition].path, target)
        self.disk.sync_directory(self.path)
        return target

    def delete(self, partition: TopicPartition, delay_ms: int) -> None:
        """Rename the partition directory now and delete it after the delay."""
        self.trash.add_directory(self._rename_away(partition, DELETE_SUFFIX), delay_ms)

    def mark_stray(self, partition: TopicPartition) -> str:
        """Rename a log that the cluster metadata does not have to ``-stray``; returns the new path."""
        return self._rename_away(partition, STRAY_SUFFIX)

    def mark_future_stray(self, partition: TopicPartition) -> str:
        """Rename a copy whose log is gone to ``-stray``; returns the new path."""
        future = self.futures.pop(partition)
        future.release()
        target = f"{self.path}/{renamed_directory(partition, STRAY_SUFFIX, self._new_uuid())}"
        self.disk.rename(future.path, target)
        return target

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
        for log in self._all_logs():
            log.fail(error)
        self.futures.clear()
        return list(self.logs)

    # --- shutdown ---------------------------------------------------------------------

    def stop(self, broker_epoch: int) -> None:
        """Close every log and write the clean shutdown file; an offline directory is only unlocked."""
        if self.failure is not None:
            self._unlock(remove=False)
            return
        now_ms = self.clock.now_ms()
        for log in self._all_logs():
            log.prepare_close()
        self._flush_all(now_ms)
        for log in self._all_logs():
            log.release()
        self.checkpoints.write_all()
        write_clean_shutdown_file(self.disk, broker_epoch)
        self._unlock(remove=True)

    def abandon(self) -> None:
        """Release everything without writing: for the next start this is an unclean shutdown."""
        for log in self._all_logs():
            log.release()
        self._unlock(remove=False)
