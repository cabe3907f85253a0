"""Moves of replicas between the log directories of this broker, as AlterReplicaLogDirs requests them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from ruslo.broker.partitions.log_dir_move import DirectoryReports, LogDirMove, MoveServices, Reservations
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.broker.scheduling.background_tasks import BackgroundTasks, cancel_all
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID
from ruslo.model.topics import TopicPartition
from ruslo.storage.disk import DiskError
from ruslo.storage.log_dir import LogDir
from ruslo.storage.log_manager import LogManager
from ruslo.storage.partition_files import future_directory

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class LogDirMoves:
    _logs: LogManager
    _partitions: PartitionManager
    _reports: DirectoryReports
    _compaction: Reservations
    _quota: ReplicationQuota
    _scheduler: Scheduler
    _moves: dict[TopicPartition, tuple[LogDirMove, asyncio.Task[None]]] = field(default_factory=dict)
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    def __post_init__(self) -> None:
        self._services = MoveServices(
            self._logs,
            self._partitions,
            self._reports,
            self._compaction,
            self._quota,
            self._scheduler,
            asyncio.Semaphore(max(len(self._logs.directories), 1)),
        )
        self._partitions.directory_listeners.append(self._on_directory_failure)

    def __len__(self) -> int:
        return len(self._moves)

    def start_remaining(self) -> None:
        """Go on with the moves of the last run; call it when all partitions are known."""
        for tp in self._logs.futures():
            found = self._logs.future_of(tp)
            assert found is not None, f"{tp} has no copy"
            target, future = found
            partition = self._partitions.by_name.get(tp.topic, {}).get(tp.partition)
            if partition is not None and partition.topic_id == future.topic_id:
                logger.info(
                    "Continuing the move of %s from %s to %s", tp, partition.log.directory, target.path
                )
                self._start(partition, target)
            elif self._partitions.missing(*tp).code is not ErrorCode.KAFKA_STORAGE_ERROR:
                try:
                    path = self._logs.mark_future_stray(tp)
                except DiskError as error:
                    logger.error("Cannot rename the copy of %s: %s", tp, error)
                else:
                    logger.warning("%s is not on this broker: renamed the copy of its log to %s", tp, path)

    async def stop(self) -> None:
        """Stop copying; the next start goes on."""
        await cancel_all(*self._tasks)

    def alter(self, tp: TopicPartition, path: str) -> None:
        """Move a replica to a log directory, or remember it for a replica that is created later.

        The present directory cancels a move. Raises KafkaError as Apache Kafka does.
        """
        if future_directory(tp, ZERO_UUID) is None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name of topic {tp.topic} is too long for a move"
            )
        target = self._usable_directory(path)
        partition = self._partitions.by_name.get(tp.topic, {}).get(tp.partition)
        if partition is None:
            raise self._error_without_log(tp, target)
        moving = self._logs.future_of(tp)
        if moving is not None and (moving[0] is not target or moving[1].topic_id != partition.topic_id):
            self._cancel(tp)
        if self._logs.directory_of(tp) is target:
            return
        if self._logs.future_of(tp) is None:
            self._create_future(partition, target)
        if tp not in self._moves:
            self._start(partition, target)

    def _usable_directory(self, path: str) -> LogDir:
        for directory in self._logs.directories:
            if directory.path == path and directory.holds_partitions:
                break
        else:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs of this broker")
        if not directory.online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {path} is offline")
        if directory.cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the log directory {path} is cordoned")
        return directory

    def _error_without_log(self, tp: TopicPartition, target: LogDir) -> KafkaError:
        error = self._partitions.missing(*tp)
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            return error
        self._logs.prefer(tp, target)
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{tp} is not on this broker")
        return error

    def _create_future(self, partition: Partition, target: LogDir) -> None:
        if not all(each.online for each in self._logs.directories):
            # It may have another copy of this log.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no move starts while a log directory is offline")
        try:
            self._logs.create_future(partition.log, target)
        except DiskError as error:
            self._partitions.storage_failed(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _start(self, partition: Partition, target: LogDir) -> None:
        log = partition.log
        source = self._logs.directory_of(log.partition)
        assert source is not None, f"{log} is in no log directory"
        move = LogDirMove(self._services, partition, source, target, log, target.futures[log.partition])
        task = self._tasks.start(self._run(move))
        self._moves[log.partition] = move, task

    async def _run(self, move: LogDirMove) -> None:
        try:
            await move.run()
        except Exception:
            logger.exception("The move of %s to %s failed", move.tp, move.target.path)
            move.cancel()
        finally:
            if (current := self._moves.get(move.tp)) is not None and current[0] is move:
                del self._moves[move.tp]

    def _cancel(self, tp: TopicPartition) -> None:
        move, task = self._moves.pop(tp, (None, None))
        if move is None or task is None:
            self._drop_unused(tp)
            return
        task.cancel()
        move.cancel()

    def _drop_unused(self, tp: TopicPartition) -> None:
        try:
            self._logs.drop_future(tp)
        except DiskError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _on_directory_failure(self, directory: LogDir) -> None:
        for move, _ in list(self._moves.values()):
            move.on_directory_failure(directory)
