"""All partitions of this broker, as the metadata assigns them.

The hot path reads ``by_name`` and ``by_id`` directly: topic → partition index → Partition. A partition whose
log directory failed is in neither; ``missing`` returns the error for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ruslo.broker.counters.traffic import Traffic
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.partitions.fetchers import ReplicaFetchers
from ruslo.broker.partitions.flusher import DISK_FULL_RETRY_S, Flusher
from ruslo.broker.partitions.leader import ReplicationSettings
from ruslo.broker.partitions.lost_replicas import DirectoryAssignments, LostReplicas
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, for_each
from ruslo.broker.scheduling.work_queue import WorkQueue
from ruslo.config.log_config import LogConfig
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.topic_image import TopicImage
from ruslo.machines.replica.fetch_session_handler import TopicIdPartition
from ruslo.machines.replica.leader import Replicas
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.ids import RESERVED_DIRS, Uuid, uuid_to_text
from ruslo.model.log_ids import log_ids
from ruslo.model.topics import INTERNAL_TOPICS, TopicPartition
from ruslo.storage.disk import DiskError
from ruslo.storage.log import Log
from ruslo.storage.log_dir import LogDir
from ruslo.storage.log_manager import Job, LogManager

logger = logging.getLogger(__name__)

DISK_FULL_REPORT_INTERVAL_MS = 60_000


@dataclass(eq=False)
class PartitionManager:
    _node_id: int
    _logs: LogManager
    _configs: DynamicConfig
    _assignments: DirectoryAssignments
    _replication: ReplicationSettings
    _fetchers: ReplicaFetchers
    _metadata_log_dir: str
    _traffic: Traffic
    _on_fatal_failure: Callable[[str], None]
    """Called with the reason why the node must stop: the metadata log directory or the last log directory
    failed."""
    _scheduler: Scheduler

    def __post_init__(self) -> None:
        logs, scheduler = self._logs, self._scheduler
        self.by_name: dict[str | Uuid, dict[int, Partition]] = {}
        self.by_id: dict[str | Uuid, dict[int, Partition]] = {}
        self._offline: set[TopicIdPartition] = set()
        """Replicas whose log directory failed."""
        self._lost = LostReplicas(self._node_id, logs, self._assignments)
        self._image = MetadataImage()
        """The image of the last ``apply``."""
        self._flushers = {
            directory.path: Flusher(f"{number}", logs.clock, scheduler, self.storage_failed)
            for number, directory in enumerate(logs.directories)
        }
        self.directory_listeners: list[Callable[[LogDir], None]] = []
        """Called before the partitions of a failed log directory go offline."""
        self._disk_full_reported_ms: dict[str, int] = {}
        """When each log directory was last reported as full."""
        self._changes = WorkQueue(scheduler, priority=Priority.CLUSTER, name="partition changes")
        """Changes of the metadata that are not in effect yet; each step is a partition."""
        self._starting = True
        """True until the first image is applied: its partitions are older than this process."""
        self._closed = False
        """Metadata still arrives after the partitions are closed, during the controlled shutdown."""
        self._housekeeping = ThreadPoolExecutor(1, thread_name_prefix="housekeeping")
        self._configs.subscribe_topics(self._on_topic_config)

    # -- lookup ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def get(self, topic: str, index: int) -> Partition:
        """Raises KafkaError if this broker does not have the partition."""
        partition = self.by_name.get(topic, {}).get(index)
        if partition is None:
            raise self.missing(topic, index)
        return partition

    def missing(self, topic: str | Uuid, index: int) -> KafkaError:
        """The error for a partition that this broker does not have."""
        topics = self._image.topics
        known = topics.by_id.get(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
        if known is None and isinstance(topic, bytes):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {uuid_to_text(topic)}")
        if known is None or not 0 <= index < len(known.partitions):
            name = topic if known is None else known.name
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name!s}-{index}")
        if (known.id, index) in self._offline:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this partition has failed")
        if (known.id, index) in self._lost:
            return KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "this replica lost its data and waits for a leader to fetch from",
            )
        # Other brokers have it: the client refreshes its metadata instead of assuming that the topic is gone.
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{known.name}-{index} is not on this broker")

    @property
    def offline_count(self) -> int:
        """Partitions that are not served because their log directory failed or their data is lost."""
        return len(self._offline) + len(self._lost)

    def directories(self) -> list[tuple[str, bool]]:
        """Every log directory and whether it is online."""
        return [(each.path, each.online) for each in self._logs.directories if each.holds_partitions]

    def in_directory(self, path: str) -> Iterator[Partition]:
        return (partition for partition in self if partition.log.directory == path)

    # -- metadata --------------------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a metadata delta to the partitions of this broker.

        Each partition takes a few file system calls, so thousands of them take several slices. Internal
        topics are changed within the call: their coordinators are the next subscribers.
        """
        if self._closed:
            return
        self._image = image
        for topic in delta.deleted_topics.values():
            self._change(topic, self._remove_topic(topic))
        for topic in delta.created_topics.values():
            self._change(topic, self._apply_partitions(image, topic, range(len(topic.partitions))))
        for topic_id, changed in delta.changed_partitions.items():
            topic = image.topics.by_id[topic_id]
            self._change(topic, self._apply_partitions(image, topic, list(changed)))

    async def applied(self) -> None:
        """Return when every change of ``apply`` is in effect."""
        await self._changes.drained()

    def _change(self, topic: TopicImage, steps: Steps[None]) -> None:
        if topic.name in INTERNAL_TOPICS:
            for _ in steps:
                pass
        else:
            self._changes.add(steps)

    def mark_strays(self) -> None:
        """After the first image: rename the directories of logs that the metadata does not know."""
        self._starting = False
        for name in list(self._logs.logs):
            topic = self._image.topics.by_name.get(name.topic)
            held_back = topic is not None and (topic.id, name.partition) in self._lost
            if name.partition not in self.by_name.get(name.topic, {}) and not held_back:
                path = self._logs.mark_stray(name)
                ids = log_ids(partition=name)
                logger.warning("%s is not in the metadata: renamed its log to %s", name, path, extra=ids)

    def _apply_partitions(
        self, metadata: MetadataImage, topic: TopicImage, indexes: Iterable[int]
    ) -> Steps[None]:
        for index in indexes:
            self._apply_partition(metadata, topic, index)
            yield

    def _apply_partition(self, metadata: MetadataImage, topic: TopicImage, index: int) -> None:
        image = topic.partitions[index]
        if topic.id not in metadata.topics.by_id:
            return
        if self._node_id not in image.replicas:
            self._remove_replica(topic, index)
            return
        partition = self.by_id.get(topic.id, {}).get(index)
        if partition is None:
            directory_id = image.directory_of(self._node_id)
            self._use_copy(topic, index, directory_id)
            if self._must_stay_offline(topic, index, directory_id):
                self._offline.add((topic.id, index))
                return
            try:
                if self._lost.hold_back(topic, index, starting=self._starting):
                    return
                log = self._open(topic, index, directory_id)
                self._lost.opened(image, log)
            except (StorageError, KafkaError) as error:
                self._offline.add((topic.id, index))
                if isinstance(error, DiskError) and not error.fatal:
                    self._report_disk_full(error)
                    asyncio.get_running_loop().call_later(
                        DISK_FULL_RETRY_S, self._retry_partition, topic.id, index
                    )
                else:
                    tp = TopicPartition(topic.name, index)
                    logger.error("Cannot open the log of %s: %s", tp, error, extra=log_ids(partition=tp))
                return
            partition = Partition(
                self._node_id,
                topic.name,
                topic.id,
                index,
                log,
                self._flushers[log.directory],
                self._traffic.of(topic.name),
            )
            self.by_name.setdefault(topic.name, {})[index] = partition
            self.by_id.setdefault(topic.id, {})[index] = partition
            directory = self._logs.directory_of(log.partition)
            if directory is not None and directory.directory_id != directory_id:
                self._assignments.assign(topic.id, index, directory.directory_id)
        if image.leader == self._node_id:
            self._fetchers.unfollow((topic.id, index))
            replicas = Replicas(image.partition_epoch, image.replicas, image.isr)
            partition.become_leader(image.leader_epoch, replicas, self._replication)
        elif (partition.leader_id, partition.leader_epoch) != (image.leader, image.leader_epoch):
            partition.become_follower(image.leader, image.leader_epoch)
            self._fetchers.follow(partition)

    def _use_copy(self, topic: TopicImage, index: int, directory_id: Uuid) -> None:
        """A crash may have ended a move between log directories before its last rename."""
        has_failed = not all(each.online for each in self._logs.directories)
        if has_failed and topic.partitions[index].replicas != (self._node_id,):
            # The log itself may be in the failed directory, with more records; other replicas have them.
            return
        tp = TopicPartition(topic.name, index)
        try:
            if self._logs.promote_future(tp, topic.id, directory_id):
                logger.info("Completed the move of %s to %s", tp, self._logs.logs[tp].directory)
        except DiskError as error:
            logger.error("Cannot complete the move of %s: %s", tp, error, extra=log_ids(partition=tp))

    def _must_stay_offline(self, topic: TopicImage, index: int, directory_id: Uuid) -> bool:
        """Whether the log may be in a failed directory: an empty log elsewhere must not replace it.

        ``directory_id``: the directory of the replica in the metadata.
        """
        if (topic.id, index) in self._offline:
            return True
        if self._logs.get(TopicPartition(topic.name, index)) is not None:
            return False
        online = {each.directory_id for each in self._logs.directories if each.online}
        failed = {each.directory_id for each in self._logs.directories if not each.online}
        # The id of a directory that could not be opened is unknown. A replica that is older than this process
        # may be in it although its assignment never reached the controller.
        may_have_failed = directory_id not in online and (directory_id not in RESERVED_DIRS or self._starting)
        return directory_id in failed - RESERVED_DIRS or (bool(failed) and may_have_failed)

    def _retry_partition(self, topic_id: Uuid, index: int) -> None:
        """The disk was full when the partition was assigned: try again to create its log."""
        if self._closed:
            return
        self._offline.discard((topic_id, index))
        # A snapshot may have replaced the image of the assignment.
        topic = self._image.topics.by_id.get(topic_id)
        if topic is not None:
            self._apply_partition(self._image, topic, index)

    def _open(self, topic: TopicImage, index: int, directory_id: Uuid) -> Log:
        name = TopicPartition(topic.name, index)
        config = self._configs.log_config(topic.name)
        log = self._logs.get(name)
        if log is not None and log.topic_id != topic.id:
            # The topic was deleted and recreated while this broker was down.
            path = self._logs.mark_stray(name)
            logger.warning(
                "The log of %s belongs to a deleted topic of that name: renamed it to %s", name, path
            )
            log = None
        if log is None:
            return self._logs.create(name, topic.id, config, directory_id)
        log.configure(config)
        return log

    def _remove_topic(self, topic: TopicImage) -> Steps[None]:
        for index in range(len(topic.partitions)):
            self._remove_replica(topic, index)
            yield
        self.by_id.pop(topic.id, None)
        self.by_name.pop(topic.name, None)
        self._traffic.forget(topic.name)

    def _remove_replica(self, topic: TopicImage, index: int) -> None:
        """The topic was deleted, or a reassignment moved the replica to other brokers."""
        self._drop_copy(topic, index)
        partition = self.by_id.get(topic.id, {}).pop(index, None)
        if partition is not None:
            self.by_name[topic.name].pop(index)
            if not self.by_name[topic.name]:
                self._traffic.forget(topic.name)
            self._delete(partition)
        elif (topic.id, index) in self._offline:
            # If it is assigned again, or a topic of that name is created, it gets a new log elsewhere.
            self._offline.discard((topic.id, index))
            self._logs.forget_offline(TopicPartition(topic.name, index))
        tp = TopicPartition(topic.name, index)
        log = self._logs.get(tp) if self._lost.forget(topic, index) else None
        if log is not None and log.topic_id == topic.id:
            self._logs.delete(tp)
        elif log is not None:
            path = self._logs.mark_stray(tp)
            logger.warning("The log of %s has no topic id: renamed it to %s", tp, path)

    def _drop_copy(self, topic: TopicImage, index: int) -> None:
        """The log was moving to another log directory."""
        tp = TopicPartition(topic.name, index)
        copy = self._logs.future_of(tp)
        if copy is not None and copy[1].topic_id == topic.id:
            try:
                self._logs.drop_future(tp)
            except DiskError as error:
                logger.error("Cannot delete the copy of %s: %s", tp, error, extra=log_ids(partition=tp))

    def _delete(self, partition: Partition) -> None:
        self._fetchers.unfollow((partition.topic_id, partition.index))
        partition.retire()
        try:
            self._logs.delete(TopicPartition(partition.topic, partition.index))
        except StorageError as error:
            logger.error(
                "Cannot delete the log of %s: %s", partition, error, extra=log_ids(partition=partition)
            )

    def _on_topic_config(self, topic: str, config: LogConfig) -> None:
        for partition in self.by_name.get(topic, {}).values():
            partition.configure(config)
            self._fetchers.throttle_changed(partition)

    # -- failures --------------------------------------------------------------------------------------------

    def storage_failed(self, error: StorageError) -> None:
        """A file operation failed: its directory goes offline unless the log could recover."""
        if isinstance(error, DiskError) and not error.fatal:
            self._report_disk_full(error)
        self._logs.report(error)

    def _report_disk_full(self, error: DiskError) -> None:
        """Producers retry several times a second: log it once a minute."""
        now_ms = self._logs.clock.monotonic_ms()
        last_ms = self._disk_full_reported_ms.get(error.directory)
        if last_ms is None or now_ms - last_ms >= DISK_FULL_REPORT_INTERVAL_MS:
            self._disk_full_reported_ms[error.directory] = now_ms
            logger.error("%s. Produce requests fail until the disk has free space", error)

    def log_moved(self, partition: Partition) -> None:
        """The log of a partition continues in another log directory."""
        partition.log_moved(self._flushers[partition.log.directory])

    def log_dir_failed(self, directory: LogDir, names: list[TopicPartition]) -> None:
        """A log directory went offline: its partitions are no longer served."""
        for topic, index in names:
            partition = self.by_name.get(topic, {}).pop(index, None)
            if partition is not None:
                self.by_id[partition.topic_id].pop(index)
                self._fetchers.unfollow((partition.topic_id, index))
                self._offline.add((partition.topic_id, index))
                partition.retire()
        for listener in self.directory_listeners:
            listener(directory)
        self._assignments.on_directory_failure(directory.directory_id)
        if directory.path == self._metadata_log_dir:
            self._on_fatal_failure(f"the metadata log directory {directory.path} has failed")
        elif not any(each.online and each.holds_partitions for each in self._logs.directories):
            self._on_fatal_failure(f"the last log directory {directory.path} has failed")

    # -- periodic tasks and shutdown -------------------------------------------------------------------------

    async def run_jobs(self, jobs: Sequence[Job]) -> None:
        """Run jobs that wait for the disk in the housekeeping thread, one at a time and in order."""
        loop = asyncio.get_running_loop()
        for job in jobs:
            try:
                await loop.run_in_executor(self._housekeeping, job.run)
            except DiskError as error:
                # Without free space the previous checkpoint stays, which only claims less.
                error.fatal = error.fatal and not error.disk_full
                self.storage_failed(error)

    async def shrink_isrs(self) -> None:
        """Propose to remove replicas that have fallen behind from their ISRs."""
        await self._for_each_partition(Partition.shrink_isr)

    async def sync_due_logs(self) -> None:
        """Sync logs in the background after rolls and creations."""
        for log in self._logs.due_flushes():
            partition = self.by_name.get(log.partition.topic, {}).get(log.partition.partition)
            if partition is not None:
                partition.request_sync()

    async def close(self) -> None:
        """Complete all waiting requests and let running syncs finish."""
        self._closed = True
        self._changes.clear()
        await self._fetchers.stop()
        await self._for_each_partition(Partition.retire)
        for flusher in self._flushers.values():
            await flusher.close()
        self._housekeeping.shutdown(wait=True)

    async def _for_each_partition(self, act: Callable[[Partition], None]) -> None:
        steps = for_each(list(self), act)
        await self._scheduler.run(steps, priority=Priority.CLUSTER, name=act.__name__)
