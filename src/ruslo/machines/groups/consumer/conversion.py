"""Online migration: a group changes its type while it has members (KIP-848).

Upgrade: the first member of the new protocol joins a classic group. The classic members keep the assignment
of their leader, and the coordinator assigns from then on; see ``migration``.

Downgrade: the last member of the new protocol leaves. The other members form a classic group whose generation
is the group epoch. It rebalances at once, so one of them becomes the leader that assigns.
"""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.classic.member import ClassicMember
from ruslo.machines.groups.consumer import topic_hash
from ruslo.machines.groups.consumer.embedded import (
    partitions_by_id,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ClassicPart, ConsumerMember
from ruslo.machines.groups.consumer.records import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_epoch_record,
    target_record,
)
from ruslo.machines.groups.consumer.replay import replay
from ruslo.machines.groups.epoch_group import FIRST_EPOCH
from ruslo.machines.groups.group import CONSUMER_PROTOCOL, Group
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.model.ids import Uuid

NO_MIGRATION = "disabled"
"""The policy that also rejects classic members in consumer groups."""
_UPGRADE_POLICIES = ("bidirectional", "upgrade")
_DOWNGRADE_POLICIES = ("bidirectional", "downgrade")


def upgrade(shard: ShardState, classic: ClassicGroup, outcome: GroupOutcome) -> ConsumerGroup:
    """Add the records of the upgrade to the outcome, and return the consumer group that they create.

    The classic group is unchanged; call ``upgraded`` when nothing can fail any more.
    """
    settings = shard.settings
    if settings.consumer_migration_policy not in _UPGRADE_POLICIES:
        raise _no_upgrade(classic, "group.consumer.migration.policy does not allow it")
    if classic.protocol_type != CONSUMER_PROTOCOL:
        raise _no_upgrade(classic, f"its protocol type is {classic.protocol_type!r}")
    if len(classic.members) > settings.consumer_max_size:
        raise _no_upgrade(
            classic, f"it has {len(classic.members)} members, more than group.consumer.max.size"
        )
    records = _upgrade_records(shard.topics, classic)
    groups: dict[str, Group] = {}
    for record in records:
        replay(groups, record)
    outcome.append([*classic.tombstones(), *records])
    group = groups[classic.group_id]
    assert isinstance(group, ConsumerGroup)
    return group


def upgraded(
    shard: ShardState, group: ConsumerGroup, joined_id: str, now_ms: int, outcome: GroupOutcome
) -> None:
    """If the outcome upgrades the group, fail parked requests of classic members and start their sessions."""
    classic = shard.groups.get(group.group_id)
    if not isinstance(classic, ClassicGroup) or classic.is_empty:
        return
    group_id = group.group_id
    outcome.replies += classic.drop_parked(ErrorCode.REBALANCE_IN_PROGRESS)
    # The replay of the upgrade cancels the timers of the classic group, so sessions start after it.
    shard.timers.set(TimerKey(group_id, joined_id, TimerKind.ADOPT), now_ms)

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        shard.timers.cancel(TimerKey(group_id, joined_id, TimerKind.ADOPT))
        return Outcome()

    outcome.add(Outcome(on_failure=on_failure))


def downgrades_without(
    shard: ShardState, group: ConsumerGroup, leaving: Sequence[ConsumerMember], *, replaced: bool = False
) -> bool:
    """Whether the group is downgraded when these leave; ``replaced``: classic members replace them."""
    settings = shard.settings
    staying = len(group.members) - (0 if replaced else len(leaving))
    return (
        group.all_classic_without(leaving)
        and 0 < staying <= settings.max_size
        and settings.consumer_migration_policy in _DOWNGRADE_POLICIES
    )


def downgrade(
    shard: ShardState,
    group: ConsumerGroup,
    staying: Sequence[ConsumerMember],
    now_ms: int,
    outcome: GroupOutcome,
    *,
    member_ids: Sequence[str] | None = None,
    rebalances: bool = True,
) -> None:
    """Add the records of a classic group with these members, all of them classic, to the outcome.

    ``member_ids``: the members that have records in the consumer group, if they are not its current members.
    ``rebalances``: the members need another assignment than the target of the consumer group.
    """
    group_id = group.group_id
    classic = ClassicGroup(group_id, state_ms=shard.wall_ms)
    for member in staying:
        assert member.classic is not None, "only classic members can be in a classic group"
        classic.add(
            ClassicMember(
                member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=member.classic.protocols,
            ),
            CONSUMER_PROTOCOL,
        )
    classic.generation = group.epoch
    classic.protocol = classic.select_protocol()
    for member in staying:
        into = classic.members[member.member_id]
        into.assignment = write_assignment(
            group.target_of(member), shard.topics, into.metadata(classic.protocol)
        )
    ended = group.members if member_ids is None else member_ids
    outcome.append(group_tombstones(group_id, ended, group.resolved))
    outcome.append([classic.to_record()])
    adopt = TimerKey(group_id, None, TimerKind.ADOPT if rebalances else TimerKind.ADOPT_STABLE)
    shard.timers.set(adopt, now_ms)

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        shard.timers.cancel(adopt)
        return Outcome()

    outcome.add(Outcome(on_failure=on_failure))


def _upgrade_records(view: TopicsView, classic: ClassicGroup) -> list[GroupRecord]:
    group_id, epoch = classic.group_id, _epoch_of(classic)
    held: set[tuple[Uuid, int]] = set()
    members = []
    for classic_member in classic.members.values():
        member = _upgraded_member(view, classic, classic_member)
        for topic_id, partitions in member.assigned.items():
            for partition in partitions:
                if (topic_id, partition) in held:
                    raise _no_upgrade(classic, "its leader has assigned a partition to two members")
                held.add((topic_id, partition))
        members.append(member)
    names = {name for member in members for name in member.topic_names}
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, epoch, topic_hash.of_topics(view, names)),
        *(
            target_record(
                group_id,
                member.member_id,
                {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()},
            )
            for member in members
        ),
        # Without a timestamp the next target is not delayed.
        target_epoch_record(group_id, epoch, 0),
        *(current_record(group_id, member) for member in members),
    ]


def _upgraded_member(view: TopicsView, classic: ClassicGroup, member: ClassicMember) -> ConsumerMember:
    try:
        # Before its first generation a group has no protocol.
        metadata = member.metadata(classic.protocol) if classic.protocol else member.protocols[0][1]
        subscription = read_subscription(metadata)
        partitions: dict[Uuid, frozenset[int]] = {}
        if member.assignment:
            assignment = read_assignment(member.assignment)
            if assignment.user_data:
                raise _no_upgrade(
                    classic,
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch "
                    "to a default assignor before re-attempting the upgrade.",
                )
            partitions = partitions_by_id(
                ((topic.topic, topic.partitions) for topic in assignment.assigned_partitions), view
            )
    except ProtocolError as error:
        raise _no_upgrade(
            classic, f"the metadata of member {member.member_id!r} is invalid: {error}"
        ) from error
    epoch = _epoch_of(classic)
    return ConsumerMember(
        member.member_id,
        epoch=epoch,
        previous_epoch=epoch,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicPart(member.session_timeout_ms, member.protocols),
        assigned={
            topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in partitions.items() if indexes
        },
    )


def _epoch_of(classic: ClassicGroup) -> int:
    """The generation, but at least the first epoch: epoch 0 means that a member joins."""
    return max(classic.generation, FIRST_EPOCH)


def _no_upgrade(classic: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}",
    )
