"""All logs of a broker, in one or more log directories.

The broker calls the periodic tasks at the intervals of its config: ``due_flushes``, and for each log
``check_retention_of`` and ``expire_producers_of``. The ``…_jobs`` methods prepare disk work for a thread.

A log directory that fails goes offline, and ``on_offline`` is called with its partitions, in the thread that
noticed the failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from ruslo.config.log_config import LogConfig
from ruslo.model.clock import Clock
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError, StorageError
from ruslo.model.ids import MIGRATING_DIR, UNASSIGNED_DIR, Uuid, random_uuid
from ruslo.model.topics import TopicPartition
from ruslo.storage.clean_shutdown import UNKNOWN_BROKER_EPOCH, write_clean_shutdown_file
from ruslo.storage.disk import DiskError, DiskOpener
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log import Log
from ruslo.storage.log_copy import LogCopy
from ruslo.storage.log_dir import LogDir
from ruslo.storage.lost_data import LostDataList
from ruslo.storage.retention import NO_LIMIT

logger = logging.getLogger(__name__)

MAX_PREFERRED_DIRECTORIES = 10_000

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
        self._preferred: dict[TopicPartition, LogDir] = {}
        """Where clients want logs to be created that this broker does not have yet."""

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
        self._drop_duplicate_futures()
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

    def _drop_duplicate_futures(self) -> None:
        """Keep one copy of each log, the longest; Kafka does not start with two."""
        best: dict[TopicPartition, tuple[int, LogDir]] = {}
        for directory in self.online_directories():
            for partition, future in list(directory.futures.items()):
                other = best.get(partition)
                if other is None or other[0] < future.end_offset:
                    best[partition] = future.end_offset, directory
                    dropped = None if other is None else other[1]
                else:
                    dropped = directory
                if dropped is not None:
                    path = dropped.mark_future_stray(partition)
                    logger.warning(
                        "%s has copies in two other directories: renamed one to %s", partition, path
                    )

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

        A directory that ``prefer`` has named comes first. A cordoned directory is used only if all are
        cordoned: the controller may have placed the replica here before it knew that.
        """
        online = [directory for directory in self.online_directories() if directory.holds_partitions]
        preferred = self._preferred.pop(partition, None)
        named = [each for each in online if each is preferred]
        named += [each for each in online if each.directory_id == directory_id]
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

    def prefer(self, partition: TopicPartition, directory: LogDir) -> None:
        """Remember the directory for a log that is created later."""
        self._preferred.pop(partition, None)
        if len(self._preferred) >= MAX_PREFERRED_DIRECTORIES:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[partition] = directory

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

    # --- moves between directories ----------------------------------------------------

    def future_of(self, partition: TopicPartition) -> tuple[LogDir, Log] | None:
        """The directory to which a log moves, and the copy there."""
        for directory in self.directories:
            future = directory.futures.get(partition)
            if future is not None:
                return directory, future
        return None

    def futures(self) -> list[TopicPartition]:
        return [partition for directory in self.directories for partition in directory.futures]

    def moving_to(self, path: str) -> list[Log]:
        """The copies of logs that move to a directory."""
        return [log for each in self.directories if each.path == path for log in each.futures.values()]

    def create_future(self, log: Log, target: LogDir) -> Log:
        """Create the copy of a log in another directory."""
        with self._guard(target):
            return target.create_future(log.partition, log.topic_id, log.config, log.start_offset)

    def drop_future(self, partition: TopicPartition) -> None:
        """Delete the copy of a log, if there is one."""
        found = self.future_of(partition)
        if found is not None:
            with self._guard(found[0]):
                found[0].drop_future(partition, self.delete_delay_ms)

    def mark_future_stray(self, partition: TopicPartition) -> str:
        """Rename a copy whose log is not on this broker to ``-stray``; returns its new path."""
        found = self.future_of(partition)
        assert found is not None, f"{partition} has no copy"
        with self._guard(found[0]):
            return found[0].mark_future_stray(partition)

    def promote_future(self, partition: TopicPartition, topic_id: Uuid, directory_id: Uuid) -> bool:
        """At start: use the copy if the log is gone and the metadata names the directory of the copy.

        The metadata names it only after the copy had caught up: the last run ended between the two renames of
        ``replace_by_future``.
        """
        found = self.future_of(partition)
        if partition in self.logs or found is None or found[1].topic_id != topic_id:
            return False
        directory = found[0]
        if directory_id not in (directory.directory_id, UNASSIGNED_DIR, MIGRATING_DIR):
            return False
        with self._guard(directory):
            log = directory.promote_future(partition)
        del directory.futures[partition]
        directory.logs[partition] = self.logs[partition] = log
        self._directory_of[partition] = directory
        return True

    def replace_by_future(self, copy: LogCopy) -> None:
        """Replace a log by its copy, which has caught up. The object of the log stays the same.

        The old directory is renamed first. So there are never two logs, and after a crash between the renames
        the next start, of Ruslo or Kafka, uses the copy: the metadata names its directory.
        """
        log, future = copy.source, copy.future
        partition, old_path = log.partition, log.path
        source = self._directory_of[partition]
        target = next(each for each in self.directories if each.futures.get(partition) is future)
        with self._guard(target):
            copy.prepare_replacement(self.clock.now_ms())
        with self._guard(source):
            deleted = source.rename_deleted(partition)
        failure: DiskError | None = None
        try:
            target.promote_future(partition)
        except DiskError as error:
            if future.path != f"{target.path}/{partition}":
                # The copy was not renamed: the log stays in use.
                with self._guard(source):
                    source.disk.rename(deleted, old_path)
                    source.disk.sync_directory(source.path)
                self.report(error)
                raise
            failure = error
        log.continue_in(future)
        del target.futures[partition], source.logs[partition]
        target.logs[partition] = log
        self._directory_of[partition] = target
        cleaned = source.checkpoints.cleaned.pop(partition, None)
        if cleaned is not None:
            target.checkpoints.cleaned[partition] = cleaned
        if failure is not None:
            self.report(failure)
            raise failure
        source.trash.add_directory(deleted, self.delete_delay_ms)

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
