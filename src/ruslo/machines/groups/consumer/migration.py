"""Members of a consumer group that use the classic protocol (KIP-848).

For them nothing changes. JoinGroup is one step of their reconciliation, with the owned partitions of their
subscription. Their generation is their epoch, no member is the leader, and SyncGroup returns the partitions
that they own. A heartbeat tells them to rejoin when another step is possible.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ruslo.machines.groups.classic.join import MEMBER_ID_REQUIRED_MIN_VERSION
from ruslo.machines.groups.classic.join import check as check_join
from ruslo.machines.groups.classic.leave import leave_response, leaving_members
from ruslo.machines.groups.classic.responses import join_error
from ruslo.machines.groups.classic.sync import check as check_sync
from ruslo.machines.groups.consumer import (
    conversion,
    fencing,
    membership,
    progress,
    subscription,
    target,
)
from ruslo.machines.groups.consumer.embedded import partitions_by_id, read_subscription, write_assignment
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ClassicPart, ConsumerMember, MemberState
from ruslo.machines.groups.epoch_group import check_room
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.group import CONSUMER_PROTOCOL
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.join_group_request import JoinGroupRequest
from ruslo.protocol.messages.join_group_response import JoinGroupResponse
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse


def join(
    shard: ShardState,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    code = check_join(shard, request)
    if code is not ErrorCode.NONE:
        return respond(token, join_error(code, request.member_id, info.api_version))
    try:
        if shard.settings.consumer_migration_policy == conversion.NO_MIGRATION:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return _join(shard, group, request, info, token, now_ms)
    except KafkaError as error:
        # As in Apache Kafka, only errors of classic groups contain the member id.
        return respond(token, join_error(error.code, "", info.api_version))


def sync(
    shard: ShardState,
    group: ConsumerGroup,
    request: SyncGroupRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    code = check_sync(request, info)
    if code is not ErrorCode.NONE:
        return respond(token, SyncGroupResponse(error_code=code))
    try:
        member, classic = _classic_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        _check_protocol(classic, request)
        if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            _expect_join(shard, group, member, now_ms)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        assignment = write_assignment(member.assigned, shard.topics, classic.protocols[0][1])
    except KafkaError as error:
        return respond(token, SyncGroupResponse(error_code=error.code))
    shard.timers.cancel(TimerKey(group.group_id, member.member_id, TimerKind.SYNC))
    _renew_session(shard, group, member.member_id, classic.session_timeout_ms, now_ms)
    response = SyncGroupResponse(
        protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
    )
    return respond(token, response)


def heartbeat(
    shard: ShardState,
    group: ConsumerGroup,
    request: HeartbeatRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    try:
        member, classic = _classic_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
    except KafkaError as error:
        return respond(token, HeartbeatResponse(error_code=error.code))
    _renew_session(shard, group, member.member_id, classic.session_timeout_ms, now_ms)
    # Heartbeats of the new protocol compute targets. If all members are classic, a join has to do it.
    latest_epoch = group.epoch if group.all_classic_without(()) else group.target_epoch
    must_join = (
        member.epoch < latest_epoch
        or member.state is MemberState.UNREVOKED
        or (member.state is MemberState.UNRELEASED and not group.waits_for_others(member))
    )
    if must_join:
        _expect_join(shard, group, member, now_ms)
    code = ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE
    return respond(token, HeartbeatResponse(error_code=code))


def leave(
    shard: ShardState,
    group: ConsumerGroup,
    request: LeaveGroupRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    """Remove members; operators remove members of both protocols this way."""
    leaving: dict[str, ConsumerMember] = {}
    results: list[tuple[MemberIdentity, ErrorCode]] = []
    for identity in leaving_members(request, info):
        try:
            member = _leaving_member(group, identity)
        except KafkaError as error:
            results.append((identity, error.code))
        else:
            leaving[member.member_id] = member
            results.append((identity, ErrorCode.NONE))
    outcome = fencing.remove(shard, group, list(leaving.values()), now_ms)
    return outcome.reply(token, leave_response(results, info))


def _join(
    shard: ShardState,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    instance_id = request.group_instance_id
    is_unknown = not request.member_id
    member_id = request.member_id or f"{instance_id or info.client_id}-{shard.new_uuid()}"
    check_room(group, member_id, shard.settings.consumer_max_size)
    if not group.supports_classic(request.protocol_type, (each.name for each in request.protocols)):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if is_unknown and instance_id is None and info.api_version >= MEMBER_ID_REQUIRED_MIN_VERSION:
        response = join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, info.api_version)
        return respond(token, response)
    outcome: GroupOutcome = Outcome(linearizable=True)
    holder = group.static_member(instance_id)
    if instance_id is None or is_unknown:
        member = membership.admitted(group, member_id, instance_id, outcome, classic=True)
    else:
        member = group.identified(member_id, instance_id)
    subscribed = _subscription(request)
    updated = _updated(member, request, subscribed, info)
    change = subscription.save(shard, group, member, updated, now_ms, outcome, unresolved_bumps=True)
    owned = partitions_by_id(
        ((topic.topic, topic.partitions) for topic in subscribed.owned_partitions), shard.topics
    )
    # The last member of the new protocol rejoins with the classic one.
    downgrades = (
        holder is not None
        and holder.classic is None
        and conversion.downgrades_without(shard, group, [holder], replaced=True)
    )
    target_epoch, partitions = group.target_epoch, group.target_of(updated)
    if not downgrades:
        target_epoch, partitions = target.update(
            shard, group, change.group_epoch, member, updated, now_ms, outcome
        )
    has_current_target = target_epoch >= change.group_epoch
    if not downgrades or has_current_target:
        updated = progress.move(
            shard,
            group,
            updated,
            target_epoch,
            partitions,
            owned,
            now_ms,
            outcome,
            subscription_changed=change.of_subscription,
        )
    shard.timers.cancel(TimerKey(group.group_id, member_id, TimerKind.JOIN))
    if downgrades and holder is not None:
        staying = [each for each in group.members.values() if each.member_id != holder.member_id]
        staying.append(updated)
        member_ids = [each.member_id for each in staying]
        conversion.downgrade(
            shard,
            group,
            staying,
            now_ms,
            outcome,
            member_ids=member_ids,
            rebalances=not has_current_target,
        )
    else:
        _renew_session(shard, group, member_id, request.session_timeout_ms, now_ms)
        deadline_ms = now_ms + updated.rebalance_timeout_ms
        shard.timers.set(TimerKey(group.group_id, member_id, TimerKind.SYNC), deadline_ms)
    response = JoinGroupResponse(
        member_id=member_id,
        generation_id=updated.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=request.protocols[0].name,
    )
    return outcome.reply(token, response)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _updated(
    member: ConsumerMember,
    request: JoinGroupRequest,
    subscribed: ConsumerProtocolSubscription,
    info: RequestInfo,
) -> ConsumerMember:
    # Version 0 has no rebalance timeout.
    timeout_ms = request.rebalance_timeout_ms if info.api_version > 0 else request.session_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscribed.rack_id or member.rack_id,
        client_id=info.client_id,
        client_host=info.client_host,
        topic_names=frozenset(subscribed.topics),
        regex="",
        rebalance_timeout_ms=timeout_ms,
        classic=ClassicPart(
            request.session_timeout_ms, tuple((each.name, each.metadata) for each in request.protocols)
        ),
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicPart]:
    member = group.identified(member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _check_protocol(classic: ClassicPart, request: SyncGroupRequest) -> None:
    if request.protocol_type not in (None, CONSUMER_PROTOCOL):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.protocol_name not in (None, classic.protocols[0][0]):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    holder = group.static_member(identity.group_instance_id)
    if holder is not None and not identity.member_id:
        return holder
    return group.identified(identity.member_id, identity.group_instance_id)


def _expect_join(shard: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """Start the rebalance timeout of a member that has to rejoin."""
    if shard.timers.get(TimerKey(group.group_id, member.member_id, TimerKind.JOIN)) is None:
        deadline_ms = now_ms + member.rebalance_timeout_ms
        shard.timers.set(TimerKey(group.group_id, member.member_id, TimerKind.JOIN), deadline_ms)


def _renew_session(
    shard: ShardState, group: ConsumerGroup, member_id: str, session_timeout_ms: int, now_ms: int
) -> None:
    shard.timers.set(TimerKey(group.group_id, member_id, TimerKind.SESSION), now_ms + session_timeout_ms)
