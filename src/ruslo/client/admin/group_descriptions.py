"""A group as its coordinator describes it: state, epochs, members and assignments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from ruslo.model.errors import ProtocolError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages import consumer_group_describe_response as consumer
from ruslo.protocol.messages import describe_groups_response as classic
from ruslo.protocol.messages import share_group_describe_response as share
from ruslo.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of classic groups of consumers, whose metadata and assignments can be decoded."""
_CLASSIC_MEMBER = 0

_VERSION = Struct(">h")


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    protocol: str
    """The protocol of the member: a consumer group may have classic members, too (KIP-848)."""
    assignment: tuple[TopicPartition, ...] | None
    """The current assignment; None when it is not in the format of consumers."""
    subscribed_topics: tuple[str, ...]
    target: tuple[TopicPartition, ...] | None = None
    """The target assignment; None for classic and share groups, which do not report it."""
    subscribed_regex: str | None = None
    rack_id: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    type: str
    """``classic``, ``consumer``, ``share`` or ``streams``."""
    state: str
    protocol_type: str
    assignor: str | None
    """The assignor that a classic group agreed on, or the coordinator's; None if it is not known."""
    coordinator_id: int
    members: tuple[GroupMember, ...]
    group_epoch: int | None = None
    """None for classic groups: no request returns their generation."""
    assignment_epoch: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether the group has members or is rebalancing."""
        return self.state != "Empty"

    def owners(self) -> dict[TopicPartition, GroupMember]:
        return {partition: member for member in self.members for partition in member.assignment or ()}


def from_classic(group: classic.DescribedGroup, coordinator_id: int) -> GroupDescription:
    readable = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    return GroupDescription(
        group.group_id,
        CLASSIC,
        group.group_state,
        group.protocol_type,
        group.protocol_data or None,
        coordinator_id,
        tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                shown_host(member.client_host),
                CLASSIC,
                decode_assignment(member.member_assignment) if readable else None,
                decode_subscription(member.member_metadata) if readable else (),
            )
            for member in sorted(group.members, key=lambda member: member.member_id)
        ),
    )


def from_consumer(group: consumer.DescribedGroup, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        CONSUMER_PROTOCOL_TYPE,
        group.assignor_name or None,
        coordinator_id,
        tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                shown_host(member.client_host),
                CLASSIC if member.member_type == _CLASSIC_MEMBER else CONSUMER,
                _partitions((t.topic_name, t.partitions) for t in member.assignment.topic_partitions),
                tuple(sorted(member.subscribed_topic_names)),
                _partitions((t.topic_name, t.partitions) for t in member.target_assignment.topic_partitions),
                member.subscribed_topic_regex or None,
                member.rack_id,
                member.member_epoch,
            )
            for member in sorted(group.members, key=lambda member: member.member_id)
        ),
        group.group_epoch,
        group.assignment_epoch,
    )


def from_share(group: share.DescribedGroup, coordinator_id: int) -> GroupDescription:
    """Members of a share group may have the same partitions: ``owners`` is of no use for them."""
    return GroupDescription(
        group.group_id,
        SHARE,
        group.group_state,
        SHARE,
        group.assignor_name or None,
        coordinator_id,
        tuple(
            GroupMember(
                member.member_id,
                None,
                member.client_id,
                shown_host(member.client_host),
                SHARE,
                _partitions((t.topic_name, t.partitions) for t in member.assignment.topic_partitions),
                tuple(sorted(member.subscribed_topic_names)),
                rack_id=member.rack_id,
                epoch=member.member_epoch,
            )
            for member in sorted(group.members, key=lambda member: member.member_id)
        ),
        group.group_epoch,
        group.assignment_epoch,
    )


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    """The assignment of a classic consumer; None when the bytes are not in the consumer protocol's format.

    The group leader wrote the bytes and the coordinator does not validate them.
    """
    if not data:
        return ()
    try:
        found, _ = ConsumerProtocolAssignment.read(
            data, _VERSION.size, _known_version(data, ConsumerProtocolAssignment.MAX_VERSION)
        )
    except ProtocolError:
        return None
    return _partitions((topic.topic, topic.partitions) for topic in found.assigned_partitions)


def decode_subscription(data: bytes) -> tuple[str, ...]:
    if not data:
        return ()
    try:
        found, _ = ConsumerProtocolSubscription.read(
            data, _VERSION.size, _known_version(data, ConsumerProtocolSubscription.MAX_VERSION)
        )
    except ProtocolError:
        return ()
    return tuple(sorted(found.topics))


def _known_version(data: bytes, newest: int) -> int:
    """Newer versions only append fields."""
    if len(data) < _VERSION.size:
        raise ProtocolError("the version is missing")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"version {version} is invalid")
    return min(version, newest)


def _partitions(topics: Iterable[tuple[str, list[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(name, number) for name, numbers in topics for number in numbers))


def shown_host(client_host: str) -> str:
    """Kafka writes hosts as Java prints an address without a name: ``/127.0.0.1``."""
    return client_host.removeprefix("/")
