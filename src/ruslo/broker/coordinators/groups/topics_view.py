"""The topics that groups subscribe to, from this broker's metadata image."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.topic_image import TopicImage
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.model.ids import Uuid

_MAX_CACHED = 50_000


class ImageTopicsView:
    """Implements the machine's ``TopicsView`` on the live image.

    The image changes only between two events of a shard, and ``MetadataChanged`` is the next event then.
    """

    def __init__(self, metadata: MetadataLoader) -> None:
        self._metadata = metadata
        self._known: dict[Uuid, tuple[TopicImage, int, TopicInfo]] = {}
        """By topic id: the image's topic, its version, and the info built from them."""

    @property
    def version(self) -> int:
        return self._metadata.image.offset

    def by_name(self, name: str) -> TopicInfo | None:
        topic = self._metadata.image.topics.by_name.get(name)
        return None if topic is None else self._info(topic)

    def by_id(self, topic_id: Uuid) -> TopicInfo | None:
        topic = self._metadata.image.topics.by_id.get(topic_id)
        return None if topic is None else self._info(topic)

    def all_names(self) -> Iterable[str]:
        return self._metadata.image.topics.by_name.keys()

    def forget(self, delta: MetadataDelta) -> None:
        """Drop cached topics. Racks belong to brokers, so a changed broker drops all of them."""
        if delta.changed_brokers:
            self._known.clear()
        for topic_id in delta.deleted_topics:
            self._known.pop(topic_id, None)

    def _info(self, topic: TopicImage) -> TopicInfo:
        known = self._known.get(topic.id)
        if known is not None and known[0] is topic and known[1] == topic.version:
            return known[2]
        info = TopicInfo(topic.name, topic.id, len(topic.partitions), self._racks(topic))
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        self._known[topic.id] = (topic, topic.version, info)
        return info

    def _racks(self, topic: TopicImage) -> tuple[frozenset[str], ...]:
        brokers = self._metadata.image.cluster.brokers
        racks = {broker.id: broker.rack for broker in brokers.values() if broker.rack is not None}
        if not racks:
            return ()
        return tuple(
            frozenset(racks[replica] for replica in partition.replicas if replica in racks)
            for partition in topic.partitions
        )


def changed_topics(delta: MetadataDelta, image: MetadataImage) -> frozenset[str]:
    """Names of topics that were created or deleted, or have other partitions or racks than before."""
    names = {topic.name for topic in delta.created_topics.values()}
    names.update(topic.name for topic in delta.deleted_topics.values())
    for topic_id, partitions in delta.changed_partitions.items():
        topic = image.topics.by_id[topic_id]
        if any(
            before is None or before.replicas != topic.partitions[index].replicas
            for index, before in partitions.items()
        ):
            names.add(topic.name)
    moved = {
        broker_id
        for broker_id, before in delta.changed_brokers.items()
        if (None if before is None else before.rack) != _rack(image, broker_id)
    }
    if moved:
        names.update(
            topic.name
            for topic in image.topics.by_name.values()
            if any(not moved.isdisjoint(partition.replicas) for partition in topic.partitions)
        )
    return frozenset(names)


def _rack(image: MetadataImage, broker_id: int) -> str | None:
    broker = image.cluster.brokers.get(broker_id)
    return None if broker is None else broker.rack
