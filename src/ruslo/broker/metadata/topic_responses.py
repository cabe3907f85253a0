"""Topics as Metadata shows them, kept until something about them changes.

Clients refresh their metadata every few minutes, and all of them at once after a leader moved; with thousands
of partitions the building and encoding of the answer is what costs. So each answer remembers its bytes, and
many of them are made in turns (``handlers/metadata``).

For the moment between a leader's death and the election of the next, its partitions are shown without one,
and it is not listed. A client that is told of a leader that is gone believes it, and comes back only when a
timer of its own says so (after one or two seconds with librdkafka); one that is told LEADER_NOT_AVAILABLE
asks again after 100 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING, NamedTuple

from ruslo.broker.requests.authorized_operations import NOT_ASKED, TOPIC_OPERATIONS
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import INTERNAL_TOPICS
from ruslo.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic

if TYPE_CHECKING:
    from ruslo.machines.controller.image import MetadataImage
    from ruslo.machines.controller.topic_image import PartitionImage, TopicImage
    from ruslo.model.ids import Uuid


class TopicAnswer(MetadataResponseTopic):
    """An answer that is encoded once for each version. Not to be changed after it was made."""

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
        """Ahead of its being sent."""
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


class _Kind(NamedTuple):
    """What an answer depends on besides the topic and the cluster."""

    listener_name: str
    error_version: int
    with_operations: bool


class _Kept(NamedTuple):
    topic_version: int
    cluster_version: int
    lost: Set[int]
    answer: TopicAnswer


class TopicResponses:
    def __init__(self) -> None:
        self._kept: dict[Uuid, dict[_Kind, _Kept]] = {}
        self.lost_leaders: Callable[[], Set[int]] = frozenset
        """Brokers whose processes have ended as far as this one can tell, though the metadata have them. It
        asks the kernel: once for each request."""

    def clear(self) -> None:
        self._kept.clear()

    def forget(self, topic_id: Uuid) -> None:
        self._kept.pop(topic_id, None)

    def get(
        self,
        image: MetadataImage,
        topic: TopicImage,
        listener_name: str,
        version: int,
        *,
        with_operations: bool,
        lost: Set[int],
    ) -> TopicAnswer:
        """``lost``: the ``lost_leaders`` of the moment."""
        kind = _Kind(listener_name, error_version(version), with_operations)
        kinds = self._kept.setdefault(topic.id, {})
        kept = kinds.get(kind)
        if kept is not None and kept[:3] == (topic.version, image.cluster.version, lost):
            return kept.answer
        answer = _answer(image, topic, kind, lost)
        kinds[kind] = _Kept(topic.version, image.cluster.version, lost, answer)
        return answer

    def outdated(
        self,
        image: MetadataImage,
        topics: Iterable[TopicImage],
        listener_name: str,
        version: int,
        *,
        with_operations: bool,
        lost: Set[int],
    ) -> list[TopicImage]:
        """Those of which there is no such answer yet, or none any more."""
        kind, cluster_version = (
            _Kind(listener_name, error_version(version), with_operations),
            image.cluster.version,
        )
        found: list[TopicImage] = []
        for topic in topics:
            kept = self._kept.get(topic.id, {}).get(kind)
            if (
                kept is None
                or kept[:3] != (topic.version, cluster_version, lost)
                or not kept.answer.is_encoded(version)
            ):
                found.append(topic)
        return found


def error_version(version: int) -> int:
    """Which of three sets of error rules a version follows: 0, 1 to 5 (as 1), 6 and later (as 6)."""
    return 0 if version == 0 else 1 if version < 6 else 6


def _answer(image: MetadataImage, topic: TopicImage, kind: _Kind, lost: Set[int]) -> TopicAnswer:
    partitions = [
        _partition(image, index, partition, kind, lost) for index, partition in enumerate(topic.partitions)
    ]
    return TopicAnswer(topic, partitions, TOPIC_OPERATIONS if kind.with_operations else NOT_ASKED)


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
        # Only newer clients know an error for a leader that does not listen where they come from.
        unheard = leading is not None and not leading.fenced and kind.error_version >= 6
        error = ErrorCode.LISTENER_NOT_FOUND if unheard else ErrorCode.LEADER_NOT_AVAILABLE
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
