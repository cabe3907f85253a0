"""What clients of the classic protocol put into the bytes of JoinGroup and SyncGroup, for type ``consumer``.

A version in two bytes, then a message. Newer versions only add fields, so one that is newer than ours is
read as the newest we know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct, error

from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.errors import ProtocolError
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ruslo.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedPartitions
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_VERSION = Struct(">h")


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises ProtocolError."""
    version = min(_version(metadata), ConsumerProtocolSubscription.MAX_VERSION)
    return ConsumerProtocolSubscription.read(metadata, _VERSION.size, version)[0]


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Raises ProtocolError."""
    version = min(_version(assignment), ConsumerProtocolAssignment.MAX_VERSION)
    return ConsumerProtocolAssignment.read(assignment, _VERSION.size, version)[0]


def write_assignment(partitions: Mapping[Uuid, Iterable[int]], view: TopicsView, metadata: bytes) -> bytes:
    """In the version that the member's own subscription has. Topics that are gone are left out."""
    version = min(_version(metadata), ConsumerProtocolAssignment.MAX_VERSION)
    assigned = [
        AssignedPartitions(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := view.by_id(topic_id)) is not None
    ]
    out = bytearray(_VERSION.pack(version))
    ConsumerProtocolAssignment(assigned_partitions=assigned).write(out, version)
    return bytes(out)


def partitions_by_id(
    topics: Iterable[tuple[str, Iterable[int]]], view: TopicsView
) -> dict[Uuid, frozenset[int]]:
    """Partitions by topic id instead of name; topics that are gone are left out."""
    result: dict[Uuid, frozenset[int]] = {}
    for name, indexes in topics:
        topic = view.by_name(name)
        if topic is not None:
            result[topic.id] = result.get(topic.id, frozenset()).union(indexes)
    return result


def _version(data: bytes) -> int:
    try:
        version: int = _VERSION.unpack_from(data)[0]
    except error:
        raise ProtocolError(f"{len(data)} bytes are too few for an embedded consumer message") from None
    if version < 0:
        raise ProtocolError(f"an embedded consumer message has no version {version}")
    return version
