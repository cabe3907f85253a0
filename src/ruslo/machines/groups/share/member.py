"""One member of a share group. It never revokes: its assignment is the one of its epoch at once.

Members are immutable: a change creates a new one, so the old and the new one can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.epoch_group import JOIN_EPOCH, LEAVE_EPOCH
from ruslo.protocol.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.share_group_current_member_assignment_value import (
    TopicPartitions as RecordedPartitions,
)
from ruslo.protocol.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue

STABLE = 0
"""The only state of records; Kafka's consumer groups have others."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = LEAVE_EPOCH
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)


def with_metadata(member: ShareMember, value: ShareGroupMemberMetadataValue) -> ShareMember:
    """The member after a record of type 10."""
    return replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
    )


def with_assignment(member: ShareMember, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
    """The member after a record of type 14."""
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        assigned=_partitions(value.assigned_partitions),
    )


def _partitions(topics: Iterable[RecordedPartitions]) -> Partitions:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}
