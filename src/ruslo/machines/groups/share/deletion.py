"""DeleteGroups with share groups: their states are deleted first, so nothing of them stays behind."""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.groups import admin
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.share import offsets, pending
from ruslo.machines.groups.share.events import DeleteShareState, ShareQuery, ShareStateDeleted
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.share.partition_states import NO_PARTITIONS, PartitionStates
from ruslo.machines.groups.share.records import states_record
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.machine import Outcome, Reply
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest


def delete_groups(shard: ShardState, request: DeleteGroupsRequest, token: Hashable) -> GroupOutcome:
    """Delete groups of any type; share groups with states in two steps."""
    waiting = pending.PendingGroupDeletion(request)
    queries: list[ShareQuery] = []
    outcome: GroupOutcome = Outcome()
    for group_id in dict.fromkeys(request.groups_names):
        group = shard.groups.get(group_id)
        if not isinstance(group, ShareGroup) or not group.is_empty:
            continue
        partitions = _partitions(group.states, shard.topics)
        if partitions:
            deleting = {topic_id: _name(group.states, topic_id) for topic_id in partitions}
            outcome.append([states_record(group_id, PartitionStates(deleting=deleting))])
            queries.append(DeleteShareState(group_id, partitions, token))
            waiting.waiting.add(group_id)
    if not queries:
        return _delete(shard, waiting, token)
    pending.wait(shard, token, waiting, queries, outcome)
    return outcome


def deleted(shard: ShardState, event: ShareStateDeleted) -> GroupOutcome:
    """The result of one group, or of the deletion of offsets."""
    waiting = shard.share_requests.get(event.token)
    if isinstance(waiting, pending.PendingOffsetDeletion):
        return offsets.deleted(shard, event, waiting)
    if not isinstance(waiting, pending.PendingGroupDeletion):
        return Outcome()
    waiting.waiting.discard(event.group_id)
    for code in offsets.failures(event).values():
        waiting.errors[event.group_id] = code
    if waiting.waiting:
        return Outcome()
    del shard.share_requests[event.token]
    return _delete(shard, waiting, event.token)


def _delete(shard: ShardState, waiting: pending.PendingGroupDeletion, token: Hashable) -> GroupOutcome:
    records, response = admin.delete_groups(shard, waiting.request, waiting.errors)
    return Outcome(records, [Reply(token, response)])


def _partitions(states: PartitionStates, view: TopicsView) -> dict[Uuid, frozenset[int]]:
    """All partitions that may have a state; the share coordinator itself deletes those of deleted topics."""
    found: dict[Uuid, frozenset[int]] = {}
    for topic_id in (*states.initialized, *states.initializing, *states.deleting):
        topic = view.by_id(topic_id)
        if topic is None:
            continue
        known = states.initialized_partitions(topic_id) | states.initializing_partitions(topic_id)
        everything = frozenset(range(topic.partition_count))
        found[topic_id] = (everything if topic_id in states.deleting else NO_PARTITIONS) | known
    return found


def _name(states: PartitionStates, topic_id: Uuid) -> str:
    for topics in (states.initialized, states.initializing):
        if topic_id in topics:
            return topics[topic_id].name
    return states.deleting[topic_id]
