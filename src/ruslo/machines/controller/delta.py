"""The changes that a commit or a snapshot made to a metadata image."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ruslo.machines.controller.broker_image import BrokerImage
    from ruslo.machines.controller.image import MetadataImage
    from ruslo.machines.controller.security_image import QuotaEntity
    from ruslo.machines.controller.topic_image import PartitionImage, TopicImage
    from ruslo.model.acls import Acl
    from ruslo.model.ids import Uuid


@dataclass(slots=True, eq=False)
class MetadataDelta:
    """Collected during replay and passed to subscribers together with the image *after* the change.

    A topic that was deleted and created again within one delta is in both ``deleted_topics`` (old id) and
    ``created_topics`` (new id); one that was created and deleted within it is in neither.
    """

    created_topics: dict[Uuid, TopicImage] = field(default_factory=dict)
    deleted_topics: dict[Uuid, TopicImage] = field(default_factory=dict)
    changed_partitions: dict[Uuid, dict[int, PartitionImage | None]] = field(default_factory=dict)
    """By topic that existed before and partition index: the former partition, None if it is new."""
    changed_configs: set[tuple[int, str]] = field(default_factory=set)
    """(resource type, resource name)."""
    changed_brokers: dict[int, BrokerImage | None] = field(default_factory=dict)
    """By broker id: the former registration, None if it is new."""
    changed_features: set[str] = field(default_factory=set)
    producer_ids_changed: bool = False
    changed_acls: dict[Uuid, Acl | None] = field(default_factory=dict)
    """By id: the former ACL, None if it is new."""
    changed_users: set[str] = field(default_factory=set)
    """Users whose SCRAM credentials changed."""
    changed_tokens: set[str] = field(default_factory=set)
    """Ids of delegation tokens."""
    changed_quotas: set[QuotaEntity] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(
            self.created_topics
            or self.deleted_topics
            or self.changed_partitions
            or self.changed_configs
            or self.changed_brokers
            or self.changed_features
            or self.producer_ids_changed
            or self.changed_acls
            or self.changed_users
            or self.changed_tokens
            or self.changed_quotas
        )

    def topic_created(self, topic: TopicImage) -> None:
        self.created_topics[topic.id] = topic

    def topic_deleted(self, topic: TopicImage) -> None:
        self.changed_partitions.pop(topic.id, None)
        if self.created_topics.pop(topic.id, None) is None:
            self.deleted_topics[topic.id] = topic

    def partition_changed(self, topic: TopicImage, index: int, before: PartitionImage | None) -> None:
        if topic.id not in self.created_topics:
            self.changed_partitions.setdefault(topic.id, {}).setdefault(index, before)

    def broker_changed(self, broker_id: int, before: BrokerImage | None) -> None:
        self.changed_brokers.setdefault(broker_id, before)

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> MetadataDelta:
        """The difference of two images: the changes of a snapshot."""
        delta = cls()
        for topic_id, old_topic in before.topics.by_id.items():
            if topic_id not in after.topics.by_id:
                delta.deleted_topics[topic_id] = old_topic
        for topic_id, topic in after.topics.by_id.items():
            known = before.topics.by_id.get(topic_id)
            if known is None:
                delta.created_topics[topic_id] = topic
                continue
            for index, partition in enumerate(topic.partitions):
                old = known.partitions[index] if index < len(known.partitions) else None
                if old != partition:
                    delta.partition_changed(topic, index, old)
        old_configs, new_configs = before.configs.by_resource, after.configs.by_resource
        for resource in old_configs.keys() | new_configs.keys():
            if old_configs.get(resource) != new_configs.get(resource):
                delta.changed_configs.add(resource)
        old_brokers, new_brokers = before.cluster.brokers, after.cluster.brokers
        for broker_id in old_brokers.keys() | new_brokers.keys():
            if old_brokers.get(broker_id) != new_brokers.get(broker_id):
                delta.changed_brokers[broker_id] = old_brokers.get(broker_id)
        old_levels, new_levels = before.features.finalized, after.features.finalized
        for name in old_levels.keys() | new_levels.keys():
            if old_levels.get(name) != new_levels.get(name):
                delta.changed_features.add(name)
        delta.producer_ids_changed = before.next_producer_id != after.next_producer_id
        after.security.changes_since(before.security, delta)
        return delta
