"""One member of a consumer group (KIP-848): its subscription and the progress of its reconciliation.

| state      | meaning                                                                              |
|------------|--------------------------------------------------------------------------------------|
| STABLE     | it owns all partitions of its target                                                 |
| UNREVOKED  | it has to revoke partitions; until it reports that it did, its epoch stays           |
| UNRELEASED | it is at the target epoch, but other members have not revoked some of its partitions |

Members are immutable: a change creates a new one, so the old and the new one can be compared.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from ruslo.machines.groups.epoch_group import JOIN_EPOCH, LEAVE_EPOCH
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.consumer_group_current_member_assignment_value import (
    TopicPartitions as RecordedPartitions,
)
from ruslo.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue

PartitionEpochs: TypeAlias = Mapping[Uuid, Mapping[int, int]]
"""The assignment epochs (KIP-1251) by topic id and partition, without topics that have no partitions."""


class MemberState(enum.IntEnum):
    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2
    UNKNOWN = 127
    """A state of a newer release."""


class ClassicPart(NamedTuple):
    """The additional properties of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """The client's protocols and embedded subscriptions in the order of preference."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = LEAVE_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    regex: str = ""
    """Empty: none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicPart | None = None
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch at which it got the partition, even if it has to revoke it; None if it is not owner."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        if epoch is None:
            epoch = self.pending_revocation.get(topic_id, {}).get(partition)
        return epoch


def with_metadata(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member after a record of type 5."""
    classic = value.classic_member_metadata
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicPart(
            classic.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
        ),
    )


def with_assignment(
    member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerMember:
    """The member after a record of type 8."""
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state,
        assigned=_partition_epochs(value.assigned_partitions, value.member_epoch),
        pending_revocation=_partition_epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _partition_epochs(topics: Iterable[RecordedPartitions], member_epoch: int) -> PartitionEpochs:
    result: dict[Uuid, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            # A record without assignment epochs; the member's own epoch is an upper bound.
            epochs = [member_epoch] * len(topic.partitions)
        result[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return result
