"""The subscriptions and assignments inside JoinGroup and SyncGroup, for the protocol type ``consumer``.

They consist of a version of two bytes and a message. Newer versions only add fields, so an unknown version is
read as the newest known one.
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
    """Encode an assignment in the version of the member's subscription, without deleted topics."""
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
    """Partitions by topic id instead of name, without deleted topics."""
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
        raise ProtocolError(f"An embedded consumer message of {len(data)} bytes is too short") from None
    if version < 0:
        raise ProtocolError(f"An embedded consumer message has the invalid version {version}")
    return version
