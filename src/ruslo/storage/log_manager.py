"""All logs of a broker, in one or more log directories.

The broker calls the periodic tasks at the intervals of its config: ``due_flushes``, and for each log
``check_retention_of`` and ``expire_producers_of``. The ``…_jobs`` methods prepare disk work for a thread.

A log directory that fails goes offline, and ``on_offline`` is called with its partitions, in the thread that
noticed the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from ruslo.config.log_config import LogConfig
from ruslo.model.clock import Clock
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError, StorageError
from ruslo.model.ids import Uuid, random_uuid
from ruslo.model.topics import TopicPartition
from ruslo.storage.clean_shutdown import UNKNOWN_BROKER_EPOCH, write_clean_shutdown_file
from ruslo.storage.disk import DiskError, DiskOpener
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log import Log
from ruslo.storage.log_dir import LogDir
from ruslo.storage.lost_data import LostDataList
from ruslo.storage.retention import NO_LIMIT

OfflineListener = Callable[[LogDir, list[TopicPartition]], None]


class Job(Protocol):
    """Disk work, prepared on the event loop, that may run in a thread; pass a DiskError to ``report``."""

    def run(self) -> None: ...


class LogManager:
    def __init__(
        self,
        directories: Sequence[LogDir],
        clock: Clock,
        *,
        on_offline: OfflineListener = lambda directory, partitions: None,
        delete_delay_ms: int = 60_000,
        producer_expiration_ms: int = 86_400_000,
    ) -> None:
        self.directories = list(directories)
        self.clock = clock
        self._on_offline = on_offline
        self.reconfigure(delete_delay_ms=delete_delay_ms, producer_expiration_ms=producer_expiration_ms)
        self.lost_data = LostDataList()
        """Lost records, as operators see them."""
        self.logs: dict[TopicPartition, Log] = {}
        self._directory_of: dict[TopicPartition, LogDir] = {}

    @classmethod
    def open(
        cls,
        paths: Iterable[str],
        clock: Clock,
        *,
        open_disk: DiskOpener | None = None,
        new_uuid: Callable[[], Uuid] = random_uuid,
        on_offline: OfflineListener = lambda directory, partitions: None,
        **settings: int,
    ) -> LogManager:
        """Lock the directories; if one cannot be used, release those locked so far."""
        directories: list[LogDir] = []
        try:
            for path in paths:
                directories.append(LogDir((open_disk or LocalDisk)(path), clock, new_uuid))
            _require_one_online(directories)
        except StorageError:
            for directory in directories:
                directory.abandon()
            raise
        return cls(directories, clock, on_offline=on_offline, **settings)

    def reconfigure(self, *, delete_delay_ms: int, producer_expiration_ms: int) -> None:
        """Change the settings of a running broker."""
        self.delete_delay_ms = delete_delay_ms
        self.producer_expiration_ms = producer_expiration_ms

    # --- start and stop ---------------------------------------------------------------

    def load(self, config_for: Callable[[str], LogConfig], *, recovery_threads: int = 2) -> None:
        """Open every log. A directory that fails goes offline; raises StorageError if all are offline."""

        def load(directory: LogDir) -> None:
            try:
                directory.load(
                    config_for,
                    delete_delay_ms=self.delete_delay_ms,
                    producer_expiration_ms=self.producer_expiration_ms,
                    recovery_threads=recovery_threads,
                )
            except (DiskError, CorruptLogError) as error:
                self._take_offline(directory, error)

        directories = self.online_directories()
        if self.was_clean or len(directories) < 2:
            for directory in directories:
                load(directory)
        else:
            # Directories on different disks are loaded at the same time.
            with ThreadPoolExecutor(len(directories), thread_name_prefix="log-loading") as pool:
                list(pool.map(load, directories))
        for directory in self.online_directories():
            for partition, log in directory.logs.items():
                if partition in self.logs:
                    raise StorageError(
                        f"{partition} exists twice, in {self.logs[partition].path} and {log.path}. "
                        "Move one of them out of its log directory"
                    )
                self.logs[partition] = log
                self._directory_of[partition] = directory
        _require_one_online(self.directories)

    @property
    def was_clean(self) -> bool:
        """Whether every online directory was shut down cleanly."""
        return all(directory.was_clean for directory in self.online_directories())

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last clean shutdown; -1 unless all directories have the same (KIP-966)."""
        epochs = {directory.previous_broker_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else UNKNOWN_BROKER_EPOCH

    def stop(self, broker_epoch: int) -> None:
        """Shut down cleanly: sync everything, write checkpoints and clean shutdown files, release locks."""
        for directory in self.directories:
            try:
                directory.stop(broker_epoch)
            except DiskError as error:
                self._take_offline(directory, error)
                directory.abandon()

    def restore_clean_shutdown_files(self) -> None:
        """Write the clean shutdown files that ``open`` removed, after a start that opened no log."""
        for directory in self.online_directories():
            if directory.was_clean:
                write_clean_shutdown_file(directory.disk, directory.previous_broker_epoch)

    def abandon(self) -> None:
        """Release everything without writing: for the next start this is an unclean shutdown."""
        for directory in self.directories:
            directory.abandon()

    # --- logs -------------------------------------------------------------------------

    def get(self, partition: TopicPartition) -> Log | None:
        return self.logs.get(partition)

    def is_current(self, log: Log) -> bool:
        """Whether the log is in use: neither deleted nor failed."""
        return log.failure is None and self.logs.get(log.partition) is log

    def online_directories(self) -> list[LogDir]:
        return [directory for directory in self.directories if directory.online]

    def offline_directory_ids(self) -> list[Uuid]:
        """Ids of the offline directories, as far as they are known."""
        return [each.directory_id for each in self.directories if not each.online and each.meta is not None]

    def cordon(self, paths: Collection[str]) -> None:
        """Cordon these directories and no others."""
        for directory in self.directories:
            directory.cordoned = directory.path in paths

    def cordoned_directory_ids(self) -> list[Uuid]:
        """Ids of the cordoned directories, as far as they are known."""
        return [each.directory_id for each in self.directories if each.cordoned and each.meta is not None]

    def directory_of(self, partition: TopicPartition) -> LogDir | None:
        return self._directory_of.get(partition)

    def create(
        self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, directory_id: Uuid | None = None
    ) -> Log:
        """Create an empty log in the directory with this id, else in the one with the fewest partitions.

        A cordoned directory is used only if all are cordoned: the controller may have placed the replica here
        before it knew that.
        """
        online = [directory for directory in self.online_directories() if directory.holds_partitions]
        named = [directory for directory in online if directory.directory_id == directory_id]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every log directory is offline")
        if named:
            directory = named[0]
        else:
            directory = min(online, key=lambda each: (each.cordoned, len(each.logs)))
        with self._guard(directory):
            log = directory.create(partition, topic_id, config)
        self.logs[partition] = log
        self._directory_of[partition] = directory
        return log

    def delete(self, partition: TopicPartition) -> None:
        """Delete a log: its directory is renamed now and deleted after ``delete_delay_ms``."""
        directory = self._forget(partition)
        with self._guard(directory):
            directory.delete(partition, self.delete_delay_ms)

    def mark_stray(self, partition: TopicPartition) -> str:
        """Rename a log that the cluster metadata does not have to ``-stray``; returns its new path."""
        directory = self._forget(partition)
        with self._guard(directory):
            return directory.mark_stray(partition)

    def forget_offline(self, partition: TopicPartition) -> None:
        """Forget a removed replica whose directory is offline; its files stay there."""
        log = self.logs.get(partition)
        if log is not None and log.failure is not None:
            self._forget(partition)

    def _forget(self, partition: TopicPartition) -> LogDir:
        del self.logs[partition]
        return self._directory_of.pop(partition)

    def checkpointed_end_offset(self, partition: TopicPartition) -> int | None:
        """The end offset that the checkpoints of the last run prove; None if they do not have the log."""
        ends = [each.checkpoints.end_offset_of(partition) for each in self.directories]
        return max((end for end in ends if end is not None), default=None)

    def fill_gap_to(self, log: Log, offset: int) -> None:
        """Continue a log at an offset past its end, so that the next start does not report the gap again."""
        directory = self._directory_of[log.partition]
        with self._guard(directory):
            log.fill_gap_to(offset, self.clock.now_ms())
            directory.checkpoints.write_all()

    def checkpoint_truncated(self, logs: Iterable[Log]) -> None:
        """Write the checkpoints of truncated logs before the next append, if they have offsets that are gone.

        Recovery trusts records below the recovery point. If the checkpointed one stayed past the truncation,
        recovery would not check records that are appended there and that a power failure may lose.
        """
        by_directory: dict[LogDir, list[Log]] = {}
        for log in logs:
            by_directory.setdefault(self._directory_of[log.partition], []).append(log)
        for directory, truncated in by_directory.items():
            if directory.online and any(directory.checkpoints.overstate(log) for log in truncated):
                with self._guard(directory):
                    directory.checkpoints.write_all()

    # --- periodic tasks ---------------------------------------------------------------

    def check_retention_of(self, log: Log, max_segments: int = NO_LIMIT) -> int:
        """Delete old segments of one log; a directory that fails goes offline."""
        try:
            return log.delete_old_segments(self.clock.now_ms(), max_segments)
        except DiskError as error:
            self.report(error)
            return 0

    def recovery_point_jobs(self) -> list[Job]:
        return self._jobs(lambda directory: directory.checkpoints.recovery_points())

    def log_start_jobs(self) -> list[Job]:
        return self._jobs(lambda directory: directory.checkpoints.log_starts())

    def high_watermark_jobs(self) -> list[Job]:
        return self._jobs(lambda directory: directory.checkpoints.high_watermarks())

    def trash_jobs(self) -> list[Job]:
        """Removal of files that were marked as deleted ``file.delete.delay.ms`` ago."""
        return self._jobs(lambda directory: directory.trash.take_due())

    def expire_producers_of(self, log: Log) -> None:
        if log.producers.entries:
            log.producers.expire(self.clock.now_ms(), self.producer_expiration_ms)

    def due_flushes(self) -> list[Log]:
        """Logs to flush: ``flush.ms`` is over, or a roll, a creation or a new epoch left files unsynced."""
        now_ms = self.clock.now_ms()
        return [
            log
            for log in self.logs.values()
            if log.failure is None
            and (log.has_unsynced_files or (log.unflushed and now_ms - log.flushed_ms >= log.config.flush_ms))
        ]

    # --- failures ---------------------------------------------------------------------

    def report(self, error: StorageError) -> None:
        """Take a log directory offline after a fatal error."""
        if isinstance(error, DiskError) and error.fatal:
            for directory in self.directories:
                if directory.path == error.directory:
                    self._take_offline(directory, error)

    def _take_offline(self, directory: LogDir, error: StorageError) -> None:
        if directory.online:
            self._on_offline(directory, directory.take_offline(error))

    @contextmanager
    def _guard(self, directory: LogDir) -> Iterator[None]:
        try:
            yield
        except DiskError as error:
            self.report(error)
            raise

    def _jobs(self, prepare: Callable[[LogDir], Job | None]) -> list[Job]:
        prepared = [prepare(directory) for directory in self.online_directories()]
        return [job for job in prepared if job is not None]


def _require_one_online(directories: Iterable[LogDir]) -> None:
    failures = []
    for directory in directories:
        if directory.failure is None:
            return
        failures.append(str(directory.failure))
    raise StorageError("No log directory can be used: " + "; ".join(failures))
