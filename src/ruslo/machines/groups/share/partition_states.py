"""The share-partitions of a share group, as far as the share coordinator has their states (record type 15).

| set          | meaning                                                                    |
|--------------|----------------------------------------------------------------------------|
| initializing | InitializeShareGroupState was or will be sent; the result is not known yet |
| initialized  | the state exists, so members may get the partition                         |
| deleting     | DeleteShareGroupState was or will be sent for the topic                    |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from ruslo.machines.assignors.spec import Partitions
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicPartitionsInfo,
)


class NamedPartitions(NamedTuple):
    name: str
    """The name of the topic when the record was written."""
    partitions: frozenset[int]


TopicStates: TypeAlias = Mapping[Uuid, NamedPartitions]

NO_PARTITIONS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PartitionStates:
    initializing: TopicStates = field(default_factory=dict)
    initialized: TopicStates = field(default_factory=dict)
    deleting: Mapping[Uuid, str] = field(default_factory=dict)
    """Topic names by id."""

    def initialized_partitions(self, topic_id: Uuid) -> frozenset[int]:
        return _partitions_of(self.initialized, topic_id)

    def initializing_partitions(self, topic_id: Uuid) -> frozenset[int]:
        return _partitions_of(self.initializing, topic_id)

    def with_initializing(self, topics: TopicStates) -> PartitionStates:
        """These partitions are initialized, so their topics are not deleted any more."""
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics}
        return replace(self, initializing=_union(self.initializing, topics), deleting=deleting)

    def with_results(self, done: Partitions, failed: Partitions) -> PartitionStates:
        """Partitions that are still initializing become initialized, or are initialized again later."""
        found = {
            topic_id: NamedPartitions(known.name, known.partitions & done[topic_id])
            for topic_id, known in self.initializing.items()
            if topic_id in done and known.partitions & done[topic_id]
        }
        over = {
            topic_id: done.get(topic_id, NO_PARTITIONS) | failed.get(topic_id, NO_PARTITIONS)
            for topic_id in done.keys() | failed.keys()
        }
        initializing = {
            topic_id: NamedPartitions(known.name, left)
            for topic_id, known in self.initializing.items()
            if (left := known.partitions - over.get(topic_id, NO_PARTITIONS))
        }
        return replace(self, initializing=initializing, initialized=_union(self.initialized, found))

    def with_deleting(self, topics: Mapping[Uuid, str]) -> PartitionStates:
        """The initialized states of these topics are deleted."""
        initialized = {
            topic_id: known for topic_id, known in self.initialized.items() if topic_id not in topics
        }
        return replace(self, initialized=initialized, deleting={**self.deleting, **topics})

    def without_deleting(self, topic_ids: Collection[Uuid]) -> PartitionStates:
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids}
        return replace(self, deleting=deleting)

    def without_topics(self, topic_ids: Collection[Uuid]) -> PartitionStates:
        """The topics were deleted: the share coordinator deletes their states itself."""
        return PartitionStates(
            {each: known for each, known in self.initializing.items() if each not in topic_ids},
            {each: known for each, known in self.initialized.items() if each not in topic_ids},
            {each: name for each, name in self.deleting.items() if each not in topic_ids},
        )

    def has_any(self, topic_ids: Iterable[Uuid]) -> bool:
        return any(
            each in self.initializing or each in self.initialized or each in self.deleting
            for each in topic_ids
        )


def states_of(value: ShareGroupStatePartitionMetadataValue) -> PartitionStates:
    return PartitionStates(
        _named(value.initializing_topics),
        _named(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _named(topics: Iterable[TopicPartitionsInfo]) -> TopicStates:
    return {
        topic.topic_id: NamedPartitions(topic.topic_name, frozenset(topic.partitions)) for topic in topics
    }


def _partitions_of(topics: TopicStates, topic_id: Uuid) -> frozenset[int]:
    known = topics.get(topic_id)
    return NO_PARTITIONS if known is None else known.partitions


def _union(first: TopicStates, second: TopicStates) -> TopicStates:
    return {
        **first,
        **{
            topic_id: NamedPartitions(added.name, added.partitions | _partitions_of(first, topic_id))
            for topic_id, added in second.items()
        },
    }
