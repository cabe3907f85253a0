"""A Metadata response: nodes, topics, leaders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.net.channel import error_of
from ruslo.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic


class Node(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class PartitionInfo(NamedTuple):
    partition: int
    leader_id: int
    """-1 when the partition has no leader."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicInfo(NamedTuple):
    name: str
    topic_id: Uuid
    internal: bool
    partitions: tuple[PartitionInfo, ...]

    def partition(self, number: int) -> PartitionInfo | None:
        return next((p for p in self.partitions if p.partition == number), None)


@dataclass(slots=True)
class ClusterMetadata:
    cluster_id: str | None
    controller_id: int
    nodes: dict[int, Node]
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    errors: dict[str, KafkaError] = field(default_factory=dict)
    """The errors of requested topics that the response does not describe."""

    @classmethod
    def from_response(cls, response: MetadataResponse) -> ClusterMetadata:
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        metadata = cls(response.cluster_id, response.controller_id, nodes)
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code != ErrorCode.NONE:
                metadata.errors[name] = error_of(topic.error_code, _reason(name, topic.error_code))
            else:
                metadata.topics[name] = _topic(name, topic)
        return metadata

    def topic(self, name: str) -> TopicInfo:
        """The topic; raises the error that Metadata returned for it."""
        found = self.topics.get(name)
        if found is not None:
            return found
        missing = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        raise self.errors.get(name, missing)


def _topic(name: str, topic: MetadataResponseTopic) -> TopicInfo:
    partitions = sorted(
        PartitionInfo(
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
            tuple(p.offline_replicas),
        )
        for p in topic.partitions
    )
    return TopicInfo(name, topic.topic_id, topic.is_internal, tuple(partitions))


def _reason(name: str, code: int) -> str:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"topic {name!r} does not exist"
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return f"{name!r} is not a valid topic name"
    return f"topic {name!r} cannot be described"
