"""ConsumerGroupHeartbeat (KIP-848): joins and leaves groups, changes subscriptions, and renews sessions.

v0: a joining member may have an empty id and gets one. v1: clients generate their ids, and may subscribe by a
regular expression.

Epoch 0 joins, -1 leaves, and -2 is a static member that leaves temporarily. Null means unchanged, so most
requests contain only the epoch, and most responses no assignment.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.consumer import (
    conversion,
    fencing,
    membership,
    progress,
    subscription,
    target,
)
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember
from ruslo.machines.groups.consumer.reconcile import Owned
from ruslo.machines.groups.epoch_group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, check_room
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.group import invalid_request, not_found_error
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBER_ID_REQUIRED_MIN_VERSION = 1
_NOT_GIVEN = -1


def handle(
    shard: ShardState,
    request: ConsumerGroupHeartbeatRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    try:
        _check(shard, request, info.api_version)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return _leave(shard, request, token, now_ms)
        return _heartbeat(shard, request, info, token, now_ms)
    except KafkaError as error:
        refused = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return respond(token, refused)


def _check(shard: ShardState, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    settings = shard.settings
    epoch = request.member_epoch
    needs_id = version >= MEMBER_ID_REQUIRED_MIN_VERSION or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    if needs_id and not request.member_id:
        raise invalid_request("MemberId can't be empty.")
    if not request.group_id:
        raise invalid_request("GroupId can't be empty.")
    if request.instance_id == "":
        raise invalid_request("InstanceId is empty. Use null for a dynamic member.")
    if request.rack_id == "":
        raise invalid_request("RackId is empty. Use null if there is no rack.")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == _NOT_GIVEN:
            raise invalid_request("RebalanceTimeoutMs is required to join")
        if request.topic_partitions is None or request.topic_partitions:
            raise invalid_request("TopicPartitions must be empty to join")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise invalid_request("SubscribedTopicNames or SubscribedTopicRegex is required to join")
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise invalid_request("InstanceId is required to leave with MemberEpoch -2")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise invalid_request(f"MemberEpoch {epoch} is invalid")
    assignor = request.server_assignor
    if assignor is not None and assignor not in settings.consumer_assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"Assignor {assignor!r} is not supported. Use one of group.consumer.assignors: "
            f"{', '.join(settings.consumer_assignors)}.",
        )


def _heartbeat(
    shard: ShardState,
    request: ConsumerGroupHeartbeatRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    outcome: GroupOutcome = Outcome(linearizable=True)
    joins = request.member_epoch == JOIN_EPOCH
    group = _group(shard, request.group_id, outcome, create=joins)
    check_room(group, request.member_id, shard.settings.consumer_max_size)
    member_id = request.member_id or shard.new_uuid()
    owned = _owned(request)
    if joins:
        member = membership.admitted(group, member_id, request.instance_id, outcome, classic=False)
    else:
        member = group.identified(member_id, request.instance_id)
        membership.check_epoch(member, request.member_epoch, owned)

    updated = _updated(member, request, info)
    change = subscription.save(shard, group, member, updated, now_ms, outcome, principal=info.principal)
    target_epoch, partitions = target.update(
        shard, group, change.group_epoch, member, updated, now_ms, outcome
    )
    moved = progress.move(
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
    conversion.upgraded(shard, group, member_id, now_ms, outcome)
    session_ms = shard.settings.consumer_session_timeout_of(group.group_id)
    shard.timers.set(TimerKey(group.group_id, member_id, TimerKind.SESSION), now_ms + session_ms)

    # Clients send a full request when they may have missed the last response.
    full = (
        request.rebalance_timeout_ms != _NOT_GIVEN
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and owned is not None
    )
    with_assignment = joins or full or moved.assigned != member.assigned
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=moved.epoch,
        heartbeat_interval_ms=shard.settings.consumer_heartbeat_interval_of(group.group_id),
        assignment=_assignment(moved) if with_assignment else None,
    )
    return outcome.reply(token, response)


def _leave(
    shard: ShardState, request: ConsumerGroupHeartbeatRequest, token: Hashable, now_ms: int
) -> GroupOutcome:
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise not_found_error(request.group_id)
    member = group.identified(request.member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        outcome = fencing.leave_temporarily(shard, group, member)
    else:
        outcome = fencing.remove(shard, group, [member], now_ms)
    response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    return outcome.reply(token, response)


def _group(shard: ShardState, group_id: str, outcome: GroupOutcome, *, create: bool) -> ConsumerGroup:
    """The group. If it is created or converted here, it exists when the records are replayed."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if not create:
        raise not_found_error(group_id)
    if group is None:
        return ConsumerGroup(group_id)
    if isinstance(group, ClassicGroup):
        if group.is_empty:
            outcome.append(group.tombstones())
            return ConsumerGroup(group_id)
        return conversion.upgrade(shard, group, outcome)
    raise not_found_error(group_id)


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, info: RequestInfo
) -> ConsumerMember:
    """The member with the properties of this request; it does not use the classic protocol any more."""
    names, regex, timeout_ms = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.rebalance_timeout_ms,
    )
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=info.client_id,
        client_host=info.client_host,
        topic_names=member.topic_names if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _NOT_GIVEN else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned:
    if request.topic_partitions is None:
        return None
    owned: dict[Uuid, set[int]] = {}
    for topic in request.topic_partitions:
        # A client may list a topic twice; both entries count.
        owned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return owned


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )
