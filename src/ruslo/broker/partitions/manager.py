"""All partitions of this broker, kept in step with the metadata.

``by_name`` and ``by_id`` are read by the hot path directly: topic → partition index → Partition. A
partition whose log directory failed is in neither; ``missing`` then says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ruslo.broker.counters.traffic import Traffic
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.partitions.fetchers import ReplicaFetchers
from ruslo.broker.partitions.flusher import DISK_FULL_RETRY_S, Flusher
from ruslo.broker.partitions.leader import Replicas, ReplicationSettings
from ruslo.broker.partitions.lost_replicas import DirectoryAssignments, LostReplicas
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps, for_each
from ruslo.broker.scheduling.work_queue import WorkQueue
from ruslo.config.log_config import LogConfig
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.topic_image import TopicImage
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.ids import RESERVED_DIRS, Uuid, uuid_to_text
from ruslo.model.log_ids import log_ids
from ruslo.model.topics import INTERNAL_TOPICS, TopicPartition
from ruslo.storage.disk import DiskError
from ruslo.storage.log import Log
from ruslo.storage.log_dir import LogDir
from ruslo.storage.log_manager import Job, LogManager

logger = logging.getLogger(__name__)

REPORT_FULL_MS = 60_000


class PartitionManager:
    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        configs: DynamicConfig,
        assignments: DirectoryAssignments,
        replication: ReplicationSettings,
        fetchers: ReplicaFetchers,
        metadata_log_dir: str,
        traffic: Traffic,
        on_unservable: Callable[[str], None],
        scheduler: Scheduler,
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._configs = configs
        self._assignments = assignments
        self._replication = replication
        self._fetchers = fetchers
        self._metadata_log_dir = metadata_log_dir
        self._traffic = traffic
        self._on_unservable = on_unservable
        """Told why the node cannot go on: the directory it needs most, or the last one, is lost."""
        self.by_name: dict[str | Uuid, dict[int, Partition]] = {}
        self.by_id: dict[str | Uuid, dict[int, Partition]] = {}
        self._offline: set[tuple[Uuid, int]] = set()
        """Partitions whose log directory failed."""
        self._lost = LostReplicas(node_id, logs, assignments)
        self._topic_ids: dict[str, Uuid] = {}
        self._image = MetadataImage()
        """The newest that ``apply`` was given."""
        self._flushers = {
            directory.path: Flusher(f"{number}", logs.clock, scheduler, self.storage_failed)
            for number, directory in enumerate(logs.directories)
        }
        self._full_reported_ms: dict[str, int] = {}
        """When a log directory was last reported as full."""
        self._scheduler = scheduler
        self._changes = WorkQueue(scheduler, priority=Priority.CLUSTER, name="a change of partitions")
        """Changes of the metadata that are not in effect yet; each step is a partition."""
        self._starting = True
        """Until the first image is in effect: the partitions in it have been there before."""
        self._closed = False
        """The metadata go on for a while after it: a broker hands over with its partitions closed already."""
        self._housekeeping = ThreadPoolExecutor(1, thread_name_prefix="housekeeping")
        logs.on_offline = self._directory_lost
        configs.subscribe_topics(self._topic_reconfigured)

    # -- looking up ------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def get(self, topic: str, index: int) -> Partition:
        """Raises KafkaError when the partition is not here, or not any more."""
        partition = self.by_name.get(topic, {}).get(index)
        if partition is None:
            raise self.missing(topic, index)
        return partition

    def missing(self, topic: str | Uuid, index: int) -> KafkaError:
        """Why a partition cannot be found."""
        topic_id = topic if isinstance(topic, bytes) else self._topic_ids.get(topic)
        if topic_id is not None and (topic_id, index) in self._offline:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this partition has failed")
        topics = self._image.topics
        if isinstance(topic, str) and topic in topics.by_name:
            topic_id = topics.by_name[topic].id
        if topic_id is not None and (topic_id, index) in self._lost:
            return KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "this replica lost its data and waits for a leader to fetch from",
            )
        known = topics.by_id.get(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
        if known is None and isinstance(topic, bytes):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {uuid_to_text(topic)}")
        if known is None or not 0 <= index < len(known.partitions):
            name = topic if known is None else known.name
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name!s}-{index}")
        # It is on other brokers: who is told so looks for its leader anew, instead of doubting the topic.
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{known.name}-{index} is not on this broker")

    @property
    def offline_count(self) -> int:
        """Partitions that are not served because their log directory failed or their data is lost."""
        return len(self._offline) + len(self._lost)

    def directories(self) -> list[tuple[str, bool]]:
        """Every log directory and whether it is in use."""
        return [(each.path, each.online) for each in self._logs.directories if each.holds_partitions]

    def in_directory(self, path: str) -> Iterator[Partition]:
        return (partition for partition in self if partition.log.directory == path)

    # -- following the metadata ------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A subscriber of the metadata: make this broker's partitions what the image says.

        Each partition costs the file system some calls, so thousands of them take several slices. Internal
        topics are changed within the call: their coordinators are the next subscribers.
        """
        if self._closed:
            return
        self._image = image
        for topic in delta.deleted_topics.values():
            self._change(topic, self._remove_topic(topic))
        for topic in delta.created_topics.values():
            self._change(topic, self._place_all(image, topic, range(len(topic.partitions))))
        for topic_id, changed in delta.changed_partitions.items():
            topic = image.topics.by_id[topic_id]
            self._change(topic, self._place_all(image, topic, list(changed)))

    async def settled(self) -> None:
        """Return when all that ``apply`` was given is in effect."""
        await self._changes.drained()

    def _change(self, topic: TopicImage, steps: Steps[None]) -> None:
        if topic.name in INTERNAL_TOPICS:
            for _ in steps:
                pass
        else:
            self._changes.add(steps)

    def set_aside_strays(self) -> None:
        """After the first image: logs that the cluster does not know are kept, but out of the way."""
        self._starting = False
        for name in list(self._logs.logs):
            topic = self._image.topics.by_name.get(name.topic)
            held_back = topic is not None and (topic.id, name.partition) in self._lost
            if name.partition not in self.by_name.get(name.topic, {}) and not held_back:
                path = self._logs.mark_stray(name)
                ids = log_ids(partition=name)
                logger.warning("%s is not in the metadata: its log is kept as %s", name, path, extra=ids)

    def _place_all(self, metadata: MetadataImage, topic: TopicImage, indexes: Iterable[int]) -> Steps[None]:
        for index in indexes:
            self._place(metadata, topic, index)
            yield

    def _place(self, metadata: MetadataImage, topic: TopicImage, index: int) -> None:
        image = topic.partitions[index]
        if topic.id not in metadata.topics.by_id:
            return
        if self._node_id not in image.replicas:
            self._remove_replica(topic, index)
            return
        partition = self.by_id.get(topic.id, {}).get(index)
        if partition is None:
            directory_id = image.directory_of(self._node_id)
            if self._is_offline(topic, index, directory_id):
                return
            try:
                if self._lost.hold_back(topic, index, starting=self._starting):
                    return
                log = self._open(topic, index, directory_id)
                self._lost.opened(image, log)
            except (StorageError, KafkaError) as error:
                self._note_offline(topic.name, topic.id, index)
                if isinstance(error, DiskError) and not error.fatal:
                    self._report_full(error)
                    asyncio.get_running_loop().call_later(
                        DISK_FULL_RETRY_S, self._place_again, topic.id, index
                    )
                else:
                    place = TopicPartition(topic.name, index)
                    logger.error("the log cannot be made: %s", error, extra=log_ids(partition=place))
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
                self._assignments.tell(topic.id, index, directory.directory_id)
        if image.leader == self._node_id:
            self._fetchers.unfollow((topic.id, index))
            replicas = Replicas(image.partition_epoch, image.replicas, image.isr)
            partition.become_leader(image.leader_epoch, replicas, self._replication)
        elif (partition.leader_id, partition.leader_epoch) != (image.leader, image.leader_epoch):
            partition.become_follower(image.leader, image.leader_epoch)
            self._fetchers.follow(partition)

    def _place_again(self, topic_id: Uuid, index: int) -> None:
        """The disk was full when the partition came: see whether there is room now."""
        if self._closed:
            return
        self._offline.discard((topic_id, index))
        # As the metadata are by now: a snapshot may have replaced the image that it came with.
        topic = self._image.topics.by_id.get(topic_id)
        if topic is not None:
            self._place(self._image, topic, index)

    def _open(self, topic: TopicImage, index: int, directory_id: Uuid) -> Log:
        name = TopicPartition(topic.name, index)
        config = self._configs.log_config(topic.name)
        log = self._logs.get(name)
        if log is not None and log.topic_id != topic.id:
            # The topic was deleted and made anew while this broker was away.
            path = self._logs.mark_stray(name)
            logger.warning("%s on disk belongs to another topic of that name: it is kept as %s", name, path)
            log = None
        if log is None:
            return self._logs.create(name, topic.id, config, directory_id)
        log.config = config
        return log

    def _is_offline(self, topic: TopicImage, index: int, directory_id: Uuid) -> bool:
        """An empty log in another directory must not take the place of one whose directory is lost."""
        if self._logs.get(TopicPartition(topic.name, index)) is None:
            online = {each.directory_id for each in self._logs.directories if each.online}
            lost = {each.directory_id for each in self._logs.directories if not each.online}
            # A directory that could not be opened has no known id. A partition that is not new may lie there
            # although the controller was never told so.
            may_be_lost = directory_id not in online and (directory_id not in RESERVED_DIRS or self._starting)
            if directory_id in lost - RESERVED_DIRS or (lost and may_be_lost):
                self._note_offline(topic.name, topic.id, index)
        return (topic.id, index) in self._offline

    def _remove_topic(self, topic: TopicImage) -> Steps[None]:
        for index in range(len(topic.partitions)):
            self._remove_replica(topic, index)
            yield
        self.by_id.pop(topic.id, None)
        self.by_name.pop(topic.name, None)
        self._traffic.forget(topic.name)
        self._topic_ids.pop(topic.name, None)

    def _remove_replica(self, topic: TopicImage, index: int) -> None:
        """The topic is deleted, or a reassignment has given the replica to other brokers."""
        partition = self.by_id.get(topic.id, {}).pop(index, None)
        if partition is not None:
            self.by_name[topic.name].pop(index)
            if not self.by_name[topic.name]:
                self._traffic.forget(topic.name)
            self._delete(partition)
        elif (topic.id, index) in self._offline:
            # Should it come back, or a topic of that name, it begins anew in a directory that is there.
            self._offline.discard((topic.id, index))
            self._logs.forget_offline(TopicPartition(topic.name, index))
        if self._lost.forget(topic, index):
            self._remove_lost(topic, index)

    def _remove_lost(self, topic: TopicImage, index: int) -> None:
        tp = TopicPartition(topic.name, index)
        log = self._logs.get(tp)
        if log is not None and log.topic_id == topic.id:
            self._logs.delete(tp)
        elif log is not None:
            path = self._logs.mark_stray(tp)
            logger.warning("%s has no known topic id: its log is kept as %s", tp, path)

    def _delete(self, partition: Partition) -> None:
        self._fetchers.unfollow((partition.topic_id, partition.index))
        partition.retire()
        try:
            self._logs.delete(TopicPartition(partition.topic, partition.index))
        except StorageError as error:
            logger.error("the log cannot be deleted: %s", error, extra=log_ids(partition=partition))

    def _topic_reconfigured(self, topic: str, config: LogConfig) -> None:
        for partition in self.by_name.get(topic, {}).values():
            partition.configure(config)
            self._fetchers.throttle_changed(partition)

    # -- failures --------------------------------------------------------------------------------------------

    def storage_failed(self, error: StorageError) -> None:
        """A file operation failed: its directory goes offline unless the log could put itself right."""
        if isinstance(error, DiskError) and not error.fatal:
            self._report_full(error)
        self._logs.report(error)

    def _report_full(self, error: DiskError) -> None:
        """Producers try again and again: say it once, and again when it lasts."""
        now_ms = self._logs.clock.monotonic_ms()
        last_ms = self._full_reported_ms.get(error.directory)
        if last_ms is None or now_ms - last_ms >= REPORT_FULL_MS:
            self._full_reported_ms[error.directory] = now_ms
            logger.error("%s; records are refused until there is room", error)

    def _directory_lost(self, directory: LogDir, names: list[TopicPartition]) -> None:
        for topic, index in names:
            partition = self.by_name.get(topic, {}).pop(index, None)
            if partition is not None:
                self.by_id[partition.topic_id].pop(index)
                self._fetchers.unfollow((partition.topic_id, index))
                self._note_offline(topic, partition.topic_id, index)
                partition.retire()
        self._assignments.directory_lost(directory.directory_id)
        if directory.path == self._metadata_log_dir:
            self._on_unservable(f"the directory of the metadata log, {directory.path}, has failed")
        elif not any(each.online and each.holds_partitions for each in self._logs.directories):
            self._on_unservable(f"the last log directory, {directory.path}, has failed")

    def _note_offline(self, topic: str, topic_id: Uuid, index: int) -> None:
        self._topic_ids[topic] = topic_id
        self._offline.add((topic_id, index))

    # -- chores and the end ----------------------------------------------------------------------------------

    async def run_jobs(self, jobs: Sequence[Job]) -> None:
        """Have the housekeeping thread do what waits for the disk; one at a time, so that none overtakes."""
        loop = asyncio.get_running_loop()
        for job in jobs:
            try:
                await loop.run_in_executor(self._housekeeping, job.run)
            except DiskError as error:
                # A checkpoint that found no room leaves the one before, which only claims less.
                error.fatal = error.fatal and not error.disk_full
                self.storage_failed(error)

    async def shrink_isrs(self) -> None:
        """Propose to remove replicas that have fallen behind from their ISRs."""
        await self._for_each_partition(_shrink_isr)

    def sync_due_logs(self) -> None:
        """Bring to disk, in the background, what rolls and creations left unsynced."""
        for log in self._logs.due_flushes():
            partition = self.by_name.get(log.partition.topic, {}).get(log.partition.partition)
            if partition is not None:
                partition.request_sync()

    async def close(self) -> None:
        """Answer whoever waits, let running syncs finish."""
        self._closed = True
        self._changes.clear()
        await self._fetchers.stop()
        # The metadata quorum goes on for a while after the partitions.
        await self._for_each_partition(Partition.retire)
        for flusher in self._flushers.values():
            await flusher.close()
        self._housekeeping.shutdown(wait=True)

    async def _for_each_partition(self, act: Callable[[Partition], None]) -> None:
        steps = for_each(list(self), act)
        await self._scheduler.run(steps, priority=Priority.CLUSTER, name=act.__name__)


def _shrink_isr(partition: Partition) -> None:
    if partition.leader is not None:
        partition.leader.shrink_isr()
