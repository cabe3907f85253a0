"""Topics and their partitions as of the last replayed record.

Partitions are immutable tuples, and equal replica lists share one tuple: in a cluster of 100,000 partitions
almost all of them have one of a few dozen assignments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ruslo.machines.controller.records import (
    DIRECTORY_ASSIGNMENT_SUPPORTED,
    ELR_SUPPORTED,
    VersionedRecord,
    partition_record_version,
)
from ruslo.model.errors import CorruptLogError
from ruslo.model.ids import MIGRATING_DIR, UNASSIGNED_DIR, Uuid, uuid_to_text
from ruslo.protocol.messages.partition_record import PartitionRecord
from ruslo.protocol.messages.topic_record import TopicRecord

if TYPE_CHECKING:
    from ruslo.machines.controller.delta import MetadataDelta
    from ruslo.protocol.messages.clear_elr_record import ClearElrRecord
    from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
    from ruslo.protocol.messages.remove_topic_record import RemoveTopicRecord

NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERED = 0
RECOVERING = 1
"""The leader was elected uncleanly and has not completed its recovery yet."""
RECOVERY_STATE_UNCHANGED = -1

ItemT = TypeVar("ItemT")


class PartitionImage(NamedTuple):
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[Uuid, ...] = ()
    recovery_state: int = RECOVERED

    def directory_of(self, broker_id: int) -> Uuid:
        """The log directory of this replica; ValueError if the broker is not a replica."""
        return self.directories[self.replicas.index(broker_id)]

    @property
    def replication_factor(self) -> int:
        """The number of replicas, once a reassignment in progress is complete."""
        return sum(each not in self.removing for each in self.replicas)


_UNWRITTEN = PartitionImage(NO_LEADER, -1, -1, (), ())
"""A placeholder for a partition whose record comes later: snapshots may list partitions in any order."""


class TopicImage:
    __slots__ = ("id", "name", "partitions", "version")

    def __init__(self, name: str, topic_id: Uuid) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[PartitionImage] = []
        self.version = 0
        """Incremented with every change of this topic's partitions; caches derived from them are keyed by
        it."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicImage):
            return NotImplemented
        return (self.name, self.id, self.partitions) == (other.name, other.id, other.partitions)

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> TopicImage:
        copy = TopicImage(self.name, self.id)
        copy.partitions = self.partitions.copy()
        copy.version = self.version
        return copy

    def __repr__(self) -> str:
        return f"TopicImage({self.name!r}, {uuid_to_text(self.id)}, {len(self.partitions)} partitions)"


class TopicsImage:
    __slots__ = ("_shared", "by_id", "by_name", "collision_names", "partition_count", "version")

    def __init__(self) -> None:
        self.by_name: dict[str, TopicImage] = {}
        self.by_id: dict[Uuid, TopicImage] = {}
        self.partition_count = 0
        self.version = 0
        """Incremented with every change of any topic."""
        self.collision_names: dict[str, str] = {}
        """Names that contain '.' or '_', by their form in metrics, where both are the same character."""
        self._shared: dict[tuple[object, ...], tuple[object, ...]] = {}

    def copy(self) -> TopicsImage:
        copy = TopicsImage()
        copy.by_name = {name: topic.copy() for name, topic in self.by_name.items()}
        copy.by_id = {topic.id: topic for topic in copy.by_name.values()}
        copy.partition_count = self.partition_count
        copy.version = self.version
        copy.collision_names = self.collision_names.copy()
        copy._shared = self._shared
        return copy

    def name_of(self, topic_id: Uuid) -> str | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, topic_id: Uuid, index: int) -> PartitionImage | None:
        topic = self.by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        for topic in self.by_name.values():
            for index, partition in enumerate(topic.partitions):
                yield topic, index, partition

    def replay_topic(self, record: TopicRecord, delta: MetadataDelta | None) -> None:
        known = self.by_name.get(record.name)
        if known is not None:
            raise CorruptLogError(
                f"The metadata log creates topic {record.name!r} as {uuid_to_text(record.topic_id)}, "
                f"but it already exists as {uuid_to_text(known.id)}"
            )
        topic = TopicImage(record.name, record.topic_id)
        self.by_name[topic.name] = topic
        self.by_id[topic.id] = topic
        collision_name = collision_name_of(topic.name)
        if collision_name is not None:
            self.collision_names[collision_name] = topic.name
        self.version += 1
        if delta is not None:
            delta.topic_created(topic)

    def replay_partition(self, record: PartitionRecord, delta: MetadataDelta | None) -> None:
        topic = self._existing(record.topic_id, "PartitionRecord")
        share = self._share
        replicas = share(record.replicas)
        partition = PartitionImage(
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            replicas,
            share(record.isr),
            share(record.eligible_leader_replicas or ()),
            share(record.last_known_elr or ()),
            share(record.adding_replicas),
            share(record.removing_replicas),
            # Version 0 has no directories: the partition was created before KIP-858.
            share(record.directories or [MIGRATING_DIR] * len(replicas)),
            record.leader_recovery_state,
        )
        self._put(topic, record.partition_id, partition, delta)

    def replay_partition_change(self, record: PartitionChangeRecord, delta: MetadataDelta | None) -> None:
        topic = self._existing(record.topic_id, "PartitionChangeRecord")
        if not 0 <= record.partition_id < len(topic.partitions):
            raise CorruptLogError(
                f"The metadata log changes {topic.name}-{record.partition_id}, which does not exist"
            )
        before = topic.partitions[record.partition_id]
        share = self._share
        leader, leader_epoch = before.leader, before.leader_epoch
        if record.leader != LEADER_UNCHANGED:
            leader, leader_epoch = record.leader, leader_epoch + 1
        replicas, directories = before.replicas, before.directories
        if record.replicas is not None:
            replicas = share(record.replicas)
        if record.directories is not None:
            directories = share(record.directories)
        elif record.replicas is not None:
            known = dict(zip(before.replicas, before.directories, strict=False))
            directories = share([known.get(replica, UNASSIGNED_DIR) for replica in replicas])
        recovery_state = record.leader_recovery_state
        partition = PartitionImage(
            leader,
            leader_epoch,
            before.partition_epoch + 1,
            replicas,
            before.isr if record.isr is None else share(record.isr),
            before.elr if record.eligible_leader_replicas is None else share(record.eligible_leader_replicas),
            before.last_known_elr if record.last_known_elr is None else share(record.last_known_elr),
            before.adding if record.adding_replicas is None else share(record.adding_replicas),
            before.removing if record.removing_replicas is None else share(record.removing_replicas),
            directories,
            before.recovery_state if recovery_state == RECOVERY_STATE_UNCHANGED else recovery_state,
        )
        self._put(topic, record.partition_id, partition, delta)

    def replay_remove_topic(self, record: RemoveTopicRecord, delta: MetadataDelta | None) -> TopicImage:
        topic = self._existing(record.topic_id, "RemoveTopicRecord")
        del self.by_id[topic.id]
        del self.by_name[topic.name]
        collision_name = collision_name_of(topic.name)
        if collision_name is not None and self.collision_names.get(collision_name) == topic.name:
            del self.collision_names[collision_name]
        self.partition_count -= sum(partition is not _UNWRITTEN for partition in topic.partitions)
        self.version += 1
        if delta is not None:
            delta.topic_deleted(topic)
        return topic

    def replay_clear_elr(self, record: ClearElrRecord, delta: MetadataDelta | None) -> None:
        if not record.topic_name:
            topics: Iterable[TopicImage] = self.by_name.values()
        elif record.topic_name in self.by_name:
            topics = (self.by_name[record.topic_name],)
        else:
            raise CorruptLogError(
                f"The metadata log clears the ELR of topic {record.topic_name!r}, which does not exist"
            )
        for topic in topics:
            for index, partition in enumerate(topic.partitions):
                if partition.elr or partition.last_known_elr:
                    cleared = partition._replace(
                        elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
                    )
                    self._put(topic, index, cleared, delta)

    def to_records(self, metadata_version: int) -> Iterator[VersionedRecord]:
        for topic in self.by_name.values():
            yield TopicRecord(name=topic.name, topic_id=topic.id), 0
            for index, partition in enumerate(topic.partitions):
                if partition is not _UNWRITTEN:
                    yield partition_record(topic.id, index, partition, metadata_version)

    def _put(
        self, topic: TopicImage, index: int, partition: PartitionImage, delta: MetadataDelta | None
    ) -> None:
        partitions = topic.partitions
        before: PartitionImage | None = None
        if index < len(partitions):
            if partitions[index] is not _UNWRITTEN:
                before = partitions[index]
            partitions[index] = partition
        else:
            while len(partitions) < index:
                partitions.append(_UNWRITTEN)
            partitions.append(partition)
        if before is None:
            self.partition_count += 1
        topic.version += 1
        self.version += 1
        if delta is not None:
            delta.partition_changed(topic, index, before)

    def _existing(self, topic_id: Uuid, record_name: str) -> TopicImage:
        topic = self.by_id.get(topic_id)
        if topic is None:
            raise CorruptLogError(
                f"The metadata log has a {record_name} for the unknown topic id {uuid_to_text(topic_id)}"
            )
        return topic

    def _share(self, items: Iterable[ItemT]) -> tuple[ItemT, ...]:
        key = tuple(items)
        return self._shared.setdefault(key, key)  # type: ignore[return-value]


def collision_name_of(name: str) -> str | None:
    """The name in metrics if another topic could have the same; otherwise None."""
    if "." in name:
        return name.replace(".", "_")
    return name if "_" in name else None


def partition_record(
    topic_id: Uuid, index: int, partition: PartitionImage, metadata_version: int
) -> tuple[PartitionRecord, int]:
    record = PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )
    if metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED:
        record.directories = list(partition.directories)
    if metadata_version >= ELR_SUPPORTED:
        # An empty list is omitted, not written as an empty tagged field.
        record.eligible_leader_replicas = list(partition.elr) or None
        record.last_known_elr = list(partition.last_known_elr) or None
    return record, partition_record_version(metadata_version)
