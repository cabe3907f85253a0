"""Topics as Metadata responses describe them, cached until they change.

Clients refresh their metadata every few minutes, and all of them at once after a leader change; with
thousands of partitions, building and encoding the response is what costs. So each description keeps its
encoded bytes, and many of them are built in slices (``handlers/metadata``).

Between the death of a leader and the next election its partitions are described without a leader, and the
broker is not listed. A client that gets a dead leader comes back only when its own timer says so (after one
or two seconds with librdkafka); one that gets LEADER_NOT_AVAILABLE retries after 100 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING, NamedTuple

from ruslo.broker.requests.access import NOT_REQUESTED, operation_bits
from ruslo.model.acls import ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import INTERNAL_TOPICS
from ruslo.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic

if TYPE_CHECKING:
    from ruslo.broker.metadata.loader import MetadataLoader
    from ruslo.broker.requests.access import Access
    from ruslo.machines.controller.delta import MetadataDelta
    from ruslo.machines.controller.image import MetadataImage
    from ruslo.machines.controller.topic_image import PartitionImage, TopicImage
    from ruslo.model.ids import Uuid


class TopicResponse(MetadataResponseTopic):
    """A description that is encoded once per version. It must not be changed."""

    __slots__ = ("_encoded",)

    def __init__(
        self,
        topic: TopicImage,
        partitions: list[MetadataResponsePartition],
        topic_authorized_operations: int,
    ) -> None:
        super().__init__(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=partitions,
            topic_authorized_operations=topic_authorized_operations,
        )
        self._encoded: dict[int, bytes] = {}

    def is_encoded(self, version: int) -> bool:
        return version in self._encoded

    def encode(self, version: int) -> None:
        """Encode it before it is sent."""
        if not self.is_encoded(version):
            self._write(bytearray(), version)

    def _write(self, out: bytearray, version: int) -> None:
        encoded = self._encoded.get(version)
        if encoded is None:
            start = len(out)
            super()._write(out, version)
            self._encoded[version] = bytes(out[start:])
        else:
            out += encoded


class TopicQuery(NamedTuple):
    """How a request wants topics described."""

    listener_name: str
    version: int
    """The version of Metadata."""
    lost: Set[int]
    """The current ``TopicResponses.lost_leaders``."""
    access: Access | None = None
    """The client's permissions, if it wants to know its authorized operations."""

    def kind_of(self, topic: TopicImage) -> _Kind:
        operations = NOT_REQUESTED
        if self.access is not None:
            operations = operation_bits(self.access, ResourceType.TOPIC, topic.name)
        return _Kind(self.listener_name, error_version(self.version), operations)


class _Kind(NamedTuple):
    """What a description depends on besides the topic and the cluster."""

    listener_name: str
    error_version: int
    operations: int


class _Cached(NamedTuple):
    topic_version: int
    cluster_version: int
    lost: Set[int]
    response: TopicResponse


class TopicResponses:
    def __init__(self, metadata: MetadataLoader, lost_leaders: Callable[[], Set[int]]) -> None:
        """``lost_leaders``: brokers whose processes have ended as far as this broker knows, though they are
        not fenced yet. It queries the kernel, so call it once per request."""
        self.lost_leaders = lost_leaders
        self._image: MetadataImage | None = None
        self._cached: dict[Uuid, dict[_Kind, _Cached]] = {}
        metadata.subscribe(self._on_metadata_change)

    def _on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if image is not self._image:
            # A snapshot replaced the image, and with it the versions of its topics.
            self._image = image
            self._cached.clear()
        for topic_id in delta.deleted_topics:
            self._cached.pop(topic_id, None)

    def get(self, image: MetadataImage, topic: TopicImage, query: TopicQuery) -> TopicResponse:
        kind, lost = query.kind_of(topic), query.lost
        kinds = self._cached.setdefault(topic.id, {})
        cached = kinds.get(kind)
        if cached is not None and cached[:3] == (topic.version, image.cluster.version, lost):
            return cached.response
        response = _describe(image, topic, kind, lost)
        kinds[kind] = _Cached(topic.version, image.cluster.version, lost, response)
        return response

    def outdated(
        self, image: MetadataImage, topics: Iterable[TopicImage], query: TopicQuery
    ) -> list[TopicImage]:
        """The topics without a current description."""
        cluster_version = image.cluster.version
        found: list[TopicImage] = []
        for topic in topics:
            cached = self._cached.get(topic.id, {}).get(query.kind_of(topic))
            if (
                cached is None
                or cached[:3] != (topic.version, cluster_version, query.lost)
                or not cached.response.is_encoded(query.version)
            ):
                found.append(topic)
        return found


def error_version(version: int) -> int:
    """The set of error rules of a version: 0, 1 to 5 (as 1), 6 and later (as 6)."""
    return 0 if version == 0 else 1 if version < 6 else 6


def _describe(image: MetadataImage, topic: TopicImage, kind: _Kind, lost: Set[int]) -> TopicResponse:
    partitions = [
        _partition(image, index, partition, kind, lost) for index, partition in enumerate(topic.partitions)
    ]
    return TopicResponse(topic, partitions, kind.operations)


def _partition(
    image: MetadataImage, index: int, partition: PartitionImage, kind: _Kind, lost: Set[int]
) -> MetadataResponsePartition:
    brokers = image.cluster.brokers
    offline: list[int] = []
    reachable: list[int] = []
    for replica, directory in zip(partition.replicas, partition.directories, strict=True):
        broker = brokers.get(replica)
        if broker is None or broker.fenced or not broker.has_online_dir(directory):
            offline.append(replica)
        if broker is not None and not broker.fenced and broker.endpoint(kind.listener_name) is not None:
            reachable.append(replica)
    replicas, isr = list(partition.replicas), list(partition.isr)
    leader, error = partition.leader, ErrorCode.NONE
    if leader in lost:
        leader, error = -1, ErrorCode.LEADER_NOT_AVAILABLE
    elif leader not in reachable:
        leading = brokers.get(leader)
        # Only newer clients know the error for a leader that lacks their listener.
        lacks_listener = leading is not None and not leading.fenced and kind.error_version >= 6
        error = ErrorCode.LISTENER_NOT_FOUND if lacks_listener else ErrorCode.LEADER_NOT_AVAILABLE
        leader = -1
    elif kind.error_version == 0:
        if len(reachable) < len(replicas):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas, isr = reachable, [replica for replica in isr if replica in reachable]
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
