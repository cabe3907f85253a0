"""The target assignment of all members, which an assignor computes for one group epoch.

Built-in assignors run inline. Others run outside the event loop (``ComputeTarget``); until their result
arrives, and while they fail, the previous target stays. A timer of the group stands for the pending query, as
with regular expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ruslo.machines.assignors.spec import GroupSpec, MemberSpec, Partitions, TopicSpec
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember
from ruslo.machines.groups.consumer.ports import AssignorFailure
from ruslo.machines.groups.consumer.records import target_epoch_record, target_record
from ruslo.machines.groups.events import ComputeTarget, ComputeTasks, TargetComputed
from ruslo.machines.groups.modern import NOTHING, existing_topic_ids
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid

QUERY_TIMEOUT_MS = 60_000
"""A guard against a lost result; the driver's timeout for assignors is far below."""
FAILURE_RETRY_MS = 10_000
"""The delay before a failed assignor runs again, so that it does not run with every heartbeat."""


def update(
    shard: ShardState,
    group: ConsumerGroup,
    group_epoch: int,
    old: ConsumerMember,
    new: ConsumerMember,
    now_ms: int,
    outcome: GroupOutcome,
) -> tuple[int, Partitions]:
    """Compute a new target if that is due. Returns the target epoch and the target of ``new``.

    ``new`` replaces ``old`` in this outcome, and the group epoch becomes ``group_epoch``.
    """
    present = group.target_epoch, group.target_of(new)
    if group.target_epoch >= group_epoch or not _is_due(shard, group):
        return present
    if group.failure is not None and group_epoch == group.epoch and now_ms < group.failure_retry_ms:
        return present
    assignor = group.preferred_assignor(shard.settings.consumer_assignors, old, new)
    spec = group_spec(group, shard.topics, _members_with(group, new))
    result = shard.assignors.assign(assignor, spec)
    if result is None:
        _query(shard, group, group_epoch, assignor, spec, now_ms, outcome)
        return present
    if isinstance(result, AssignorFailure):
        _failed(group, result, now_ms)
        return present
    group.failure = None
    outcome.append(_records(shard, group, spec.members, result, group_epoch))
    return group_epoch, result.get(new.member_id, NOTHING)


def computed(shard: ShardState, group: ConsumerGroup, event: TargetComputed, now_ms: int) -> GroupOutcome:
    """Apply the result of ``ComputeTarget``."""
    shard.timers.cancel(TimerKey(group.group_id, None, TimerKind.ASSIGNMENT))
    outcome: GroupOutcome = Outcome(linearizable=True)
    result = event.result
    if group.target_epoch >= group.epoch:
        return outcome
    is_late = event.group_epoch != group.epoch
    if isinstance(result, AssignorFailure):
        _failed(group, result, now_ms)
        if is_late:
            _query_again(shard, group, now_ms, outcome)
        return outcome
    assert isinstance(result, Mapping), f"the result must be a checked target, not {result!r}"
    # A static member may have rejoined with another id, which does not bump the epoch.
    if is_late or not result.keys() <= group.members.keys():
        _query_again(shard, group, now_ms, outcome)
        return outcome
    group.failure = None
    outcome.append(_records(shard, group, group.members, result, group.epoch))
    return outcome


def group_spec(group: ConsumerGroup, view: TopicsView, members: Iterable[ConsumerMember]) -> GroupSpec:
    """The input of an assignor."""
    topic_ids: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}
    specs: dict[str, MemberSpec] = {}
    for member in members:
        subscription = member.topic_names, member.regex
        subscribed = topic_ids.get(subscription)
        if subscribed is None:
            subscribed = topic_ids[subscription] = subscribed_topic_ids(group, view, member)
        specs[member.member_id] = MemberSpec(
            member_id=member.member_id,
            subscribed_topic_ids=subscribed,
            current=group.target_of(member),
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
        )
    everything = frozenset().union(*topic_ids.values()) if topic_ids else frozenset[Uuid]()
    topics = {
        topic.topic_id: topic for topic in sorted(_topics(view, everything), key=lambda each: each.name)
    }
    only = next(iter(topic_ids)) if len(topic_ids) == 1 else None
    # As in Kafka: all members have the same names or the same pattern, but not both.
    homogeneous = only is not None and not (only[0] and only[1])
    return GroupSpec(group.group_id, specs, topics, homogeneous)


def subscribed_topic_ids(group: ConsumerGroup, view: TopicsView, member: ConsumerMember) -> frozenset[Uuid]:
    """The ids of existing topics; a pattern that is not resolved yet matches none."""
    names: Iterable[str] = member.topic_names
    if member.regex and member.regex in group.resolved:
        names = member.topic_names.union(group.resolved[member.regex].topics)
    return existing_topic_ids(names, view)


def _topics(view: TopicsView, topic_ids: Iterable[Uuid]) -> Iterator[TopicSpec]:
    for topic_id in topic_ids:
        topic = view.by_id(topic_id)
        assert topic is not None, "a view does not change during an event"
        racks = tuple(map(frozenset, topic.racks))
        yield TopicSpec(topic_id, topic.name, topic.partition_count, racks)


def _members_with(group: ConsumerGroup, new: ConsumerMember) -> list[ConsumerMember]:
    """All members and ``new``, which replaces the last owner of its instance id."""
    replaced = new.member_id
    if new.instance_id is not None:
        replaced = group.static_members.get(new.instance_id, new.member_id)
    if replaced not in group.members:
        return [*group.members.values(), new]
    return [new if member.member_id == replaced else member for member in group.members.values()]


def _is_due(shard: ShardState, group: ConsumerGroup) -> bool:
    if shard.timers.get(TimerKey(group.group_id, None, TimerKind.ASSIGNMENT)) is not None:
        return False
    interval_ms = shard.settings.consumer_assignment_interval_of(group.group_id)
    return not group.is_target_recent(shard.wall_ms, interval_ms)


def _records(
    shard: ShardState,
    group: ConsumerGroup,
    member_ids: Iterable[str],
    result: Mapping[str, Partitions],
    epoch: int,
) -> list[GroupRecord]:
    records = [
        target_record(group.group_id, member_id, target)
        for member_id, target in group.changed_targets(member_ids, result)
    ]
    records.append(target_epoch_record(group.group_id, epoch, shard.wall_ms))
    return records


def _failed(group: ConsumerGroup, failure: AssignorFailure, now_ms: int) -> None:
    group.failure = failure
    group.failure_retry_ms = now_ms + FAILURE_RETRY_MS


def _query_again(shard: ShardState, group: ConsumerGroup, now_ms: int, outcome: GroupOutcome) -> None:
    """Start another query: the group has changed while the assignor was running."""
    assignor = group.preferred_assignor(shard.settings.consumer_assignors)
    spec = group_spec(group, shard.topics, group.members.values())
    _query(shard, group, group.epoch, assignor, spec, now_ms, outcome)


def _query(
    shard: ShardState,
    group: ConsumerGroup,
    group_epoch: int,
    assignor: str,
    spec: GroupSpec,
    now_ms: int,
    outcome: GroupOutcome,
) -> None:
    outcome.add(pending_query(shard, ComputeTarget(group.group_id, group_epoch, assignor, spec), now_ms))


def pending_query(shard: ShardState, query: ComputeTarget | ComputeTasks, now_ms: int) -> GroupOutcome:
    """An outcome with the query; its timer runs until the result arrives."""
    key = TimerKey(query.group_id, None, TimerKind.ASSIGNMENT)
    shard.timers.set(key, now_ms + QUERY_TIMEOUT_MS)

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        shard.timers.cancel(key)
        return Outcome()

    return Outcome(effects=[query], on_failure=on_failure)
