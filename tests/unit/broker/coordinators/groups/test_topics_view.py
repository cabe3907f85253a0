from __future__ import annotations

from ruslo.broker.coordinators.groups.topics_view import ImageTopicsView, changed_topics
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.protocol.message import Message
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.protocol.messages.partition_record import PartitionRecord
from ruslo.protocol.messages.register_broker_record import RegisterBrokerRecord
from ruslo.protocol.messages.remove_topic_record import RemoveTopicRecord
from ruslo.protocol.messages.topic_record import TopicRecord

ID = b"0123456789abcdef"


class Cluster:
    """A metadata log that commits at once and collects the topic names that each commit changed."""

    def __init__(self) -> None:
        self.metadata = MetadataLoader()
        self.view = ImageTopicsView(self.metadata)
        self.changed: frozenset[str] = frozenset()
        self.metadata.subscribe(self._apply)

    def _apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.view.forget(delta)
        self.changed = changed_topics(delta, image)

    def commit(self, *records: Message) -> None:
        self.changed = frozenset()
        self.metadata.handle_commit(self.metadata.image.offset + 1, 1, records)


def broker(broker_id: int, rack: str | None) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=broker_id, incarnation_id=b"x" * 16, broker_epoch=1, rack=rack)


def partition(index: int, *replicas: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index, topic_id=ID, replicas=list(replicas), isr=list(replicas), leader=replicas[0]
    )


def topic(*partitions: PartitionRecord) -> list[Message]:
    return [TopicRecord(name="t", topic_id=ID), *partitions]


def test_topics_by_name_and_id() -> None:
    cluster = Cluster()
    cluster.commit(*topic(partition(0, 1), partition(1, 1)))
    assert cluster.changed == {"t"}
    assert cluster.view.by_name("t") == TopicInfo("t", ID, 2)
    assert cluster.view.by_id(ID) is cluster.view.by_name("t")
    assert cluster.view.by_name("other") is None
    assert list(cluster.view.all_names()) == ["t"]
    assert cluster.view.version == 2


def test_racks_are_those_of_the_replicas() -> None:
    cluster = Cluster()
    cluster.commit(broker(1, "a"), broker(2, "b"), broker(3, None))
    cluster.commit(*topic(partition(0, 1, 2), partition(1, 3)))
    info = cluster.view.by_name("t")
    assert info is not None
    assert info.racks == (frozenset({"a", "b"}), frozenset())


def test_broker_in_another_rack_changes_its_topics() -> None:
    cluster = Cluster()
    cluster.commit(broker(1, "a"), broker(2, "b"))
    cluster.commit(*topic(partition(0, 1)))
    cluster.commit(broker(2, "c"))
    assert cluster.changed == frozenset()
    cluster.commit(broker(1, "c"))
    assert cluster.changed == {"t"}
    info = cluster.view.by_name("t")
    assert info is not None
    assert info.racks == (frozenset({"c"}),)


def test_only_relevant_changes_count() -> None:
    cluster = Cluster()
    cluster.commit(*topic(partition(0, 1, 2)))
    cluster.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2, isr=[2]))
    assert cluster.changed == frozenset()
    cluster.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=[2, 3]))
    assert cluster.changed == {"t"}
    cluster.commit(partition(1, 2))
    assert cluster.changed == {"t"}
    info = cluster.view.by_name("t")
    assert info is not None
    assert info.partition_count == 2


def test_deleted_topic_is_not_found() -> None:
    cluster = Cluster()
    cluster.commit(*topic(partition(0, 1)))
    assert cluster.view.by_id(ID) is not None
    cluster.commit(RemoveTopicRecord(topic_id=ID))
    assert cluster.changed == {"t"}
    assert cluster.view.by_id(ID) is None
    assert list(cluster.view.all_names()) == []
