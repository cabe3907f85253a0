"""ShareGroupHeartbeat v1 (KIP-932): joins and leaves groups, changes subscriptions, and renews sessions.

Epoch 0 joins and -1 leaves; the client generates its member id. Null means unchanged, so most requests
contain only the epoch, and most responses no assignment.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.consumer import topic_hash
from ruslo.machines.groups.epoch_group import JOIN_EPOCH, LEAVE_EPOCH, check_room, fenced_epoch
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.group import SHARE, invalid_request, not_found_error
from ruslo.machines.groups.modern import existing_topic_ids
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.share import fencing, initialization, target
from ruslo.machines.groups.share.group import CHECK_NOW_MS, ShareGroup, filtered
from ruslo.machines.groups.share.member import ShareMember
from ruslo.machines.groups.share.records import current_record, epoch_record, member_record
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

MAX_MEMBER_ID_CHARS = 36


def handle(
    shard: ShardState, request: ShareGroupHeartbeatRequest, info: RequestInfo, token: Hashable, now_ms: int
) -> GroupOutcome:
    try:
        _check(request)
        if request.member_epoch == LEAVE_EPOCH:
            return _leave(shard, request, token)
        return _heartbeat(shard, request, info, token, now_ms)
    except KafkaError as error:
        return respond(token, ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message))


def _check(request: ShareGroupHeartbeatRequest) -> None:
    if not request.member_id or len(request.member_id) > MAX_MEMBER_ID_CHARS:
        raise invalid_request(f"MemberId must have 1 to {MAX_MEMBER_ID_CHARS} characters. Use a random UUID.")
    if not request.group_id:
        raise invalid_request("GroupId can't be empty.")
    if request.rack_id == "":
        raise invalid_request("RackId is empty. Use null if there is no rack.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise invalid_request("SubscribedTopicNames is required to join")
    if request.member_epoch < LEAVE_EPOCH:
        raise invalid_request(f"MemberEpoch {request.member_epoch} is invalid")


def _heartbeat(
    shard: ShardState, request: ShareGroupHeartbeatRequest, info: RequestInfo, token: Hashable, now_ms: int
) -> GroupOutcome:
    outcome: GroupOutcome = Outcome(linearizable=True)
    group, member = _joined(shard, request)
    group_id = group.group_id
    names = request.subscribed_topic_names
    updated = replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=info.client_id,
        client_host=info.client_host,
        topic_names=member.topic_names if names is None else frozenset(names),
    )
    if updated != member:
        outcome.append([member_record(group_id, updated)])
    epoch, topic_names = _group_epoch(shard, group, member, updated, outcome)
    target_epoch, partitions = target.update(shard, group, epoch, updated, outcome)
    moved = updated
    if updated.epoch != target_epoch:
        assigned = _subscribed(shard, updated, partitions)
        moved = replace(updated, epoch=target_epoch, previous_epoch=updated.epoch, assigned=assigned)
    elif epoch != group.epoch:
        moved = replace(updated, assigned=_subscribed(shard, updated, partitions))
    if moved != updated:
        outcome.append([current_record(group_id, moved)])
    session_ms = shard.settings.share_session_timeout_of(group_id)
    shard.timers.set(TimerKey(group_id, member.member_id, TimerKind.SESSION), now_ms + session_ms)
    initialization.start(shard, group, epoch, topic_names, now_ms, outcome)

    # Clients send their subscription when they may have missed the last response.
    with_assignment = names is not None or moved.assigned != member.assigned
    response = ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=moved.epoch,
        heartbeat_interval_ms=shard.settings.share_heartbeat_interval_of(group_id),
        assignment=_assignment(moved) if with_assignment else None,
    )
    return outcome.reply(token, response)


def _joined(shard: ShardState, request: ShareGroupHeartbeatRequest) -> tuple[ShareGroup, ShareMember]:
    """The group and the member of a heartbeat. New ones exist when the records are replayed."""
    joins = request.member_epoch == JOIN_EPOCH
    group = shard.groups.get(request.group_id)
    if group is None and joins:
        group = ShareGroup(request.group_id)
    if not isinstance(group, ShareGroup):
        raise not_found_error(request.group_id)
    check_room(group, request.member_id, shard.settings.share_max_size)
    if joins:
        return group, group.members.get(request.member_id) or ShareMember(request.member_id)
    member = group.member(request.member_id)
    # The response that bumped its epoch may have been lost.
    if request.member_epoch not in (member.epoch, member.previous_epoch):
        raise fenced_epoch(SHARE, member.epoch, request.member_epoch)
    return group, member


def _group_epoch(
    shard: ShardState, group: ShareGroup, old: ShareMember, new: ShareMember, outcome: GroupOutcome
) -> tuple[int, Collection[str]]:
    """The group epoch after ``new`` replaces ``old``, and the topics that members subscribe to then."""
    bump = new.topic_names != old.topic_names
    if not bump and group.target_epoch >= group.epoch:
        bump = group.has_other_target(shard.topics)
    if not bump and not group.refresh_due:
        return group.epoch, group.topic_names
    names = group.topic_names_with(old, new)
    metadata_hash = topic_hash.of_topics(shard.topics, names)
    epoch = group.epoch
    if bump or metadata_hash != group.metadata_hash:
        epoch += 1
        outcome.append([epoch_record(group.group_id, epoch, metadata_hash)])
    group.refreshed_epoch = epoch
    group.next_initialization_ms = CHECK_NOW_MS
    return epoch, names


def _leave(shard: ShardState, request: ShareGroupHeartbeatRequest, token: Hashable) -> GroupOutcome:
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ShareGroup):
        raise not_found_error(request.group_id)
    outcome = fencing.remove(shard, group, group.member(request.member_id))
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return outcome.reply(token, response)


def _subscribed(shard: ShardState, member: ShareMember, partitions: Partitions) -> Partitions:
    """The last target may contain topics that the member does not subscribe to any more."""
    return filtered(partitions, existing_topic_ids(member.topic_names, shard.topics))


def _assignment(member: ShareMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )
