"""The target assignment of all members, which a task assignor computes for one group epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.machines.assignors.streams.model import (
    AssignmentMember,
    GroupSpec,
    MemberTasks,
    TaskAssignment,
    TaskAssignorError,
)
from ruslo.machines.groups.consumer.ports import AssignorFailure
from ruslo.machines.groups.consumer.target import FAILURE_RETRY_MS, pending_query
from ruslo.machines.groups.events import ComputeTasks, TargetComputed
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.configured_topology import ConfiguredTopology, configure
from ruslo.machines.groups.streams.group import NO_TARGET_TASKS, StreamsGroup, TaskOffsets
from ruslo.machines.groups.streams.member import StreamsMember
from ruslo.machines.groups.streams.records import target_epoch_record, target_record
from ruslo.machines.groups.streams.settings import StreamsGroupConfig
from ruslo.machines.groups.streams.status import StatusCode, status
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.streams_group_heartbeat_response import Status

NOTHING_REPORTED = TaskOffsets()
MAX_INLINE_TASKS = 300
"""More tasks and standby tasks are assigned outside the event loop: each takes up to 0.1 ms."""
_COMPUTING = "The next assignment is being computed"


def update(
    shard: ShardState,
    group: StreamsGroup,
    group_epoch: int,
    member: StreamsMember,
    configured: ConfiguredTopology,
    config: StreamsGroupConfig,
    now_ms: int,
    outcome: GroupOutcome,
    statuses: list[Status],
) -> tuple[int, MemberTasks]:
    """Compute a new target if that is due. Returns the target epoch and the target of ``member``.

    ``member`` replaces the group's member of its id or instance id, and the group epoch becomes
    ``group_epoch``.
    """
    if shard.timers.get(TimerKey(group.group_id, None, TimerKind.INITIAL_DELAY)) is not None:
        detail = "The first assignment waits for more members (streams.initial.rebalance.delay.ms)"
        statuses.append(status(StatusCode.ASSIGNMENT_DELAYED, detail))
        return group.target_epoch, NO_TARGET_TASKS
    present = group.target_epoch, group.target_of(member)
    if group.target_epoch >= group_epoch:
        return present
    delay = _why_not_due(shard, group, group_epoch, config, now_ms)
    if delay is None:
        members = _members_with(group, member)
        result = _assign(shard, group, group_epoch, members, configured, config, now_ms, outcome)
        if result is not None:
            outcome.append(_records(shard, group, members, result, group_epoch))
            return group_epoch, result.get(member.member_id, NO_TARGET_TASKS)
        delay = _COMPUTING
    statuses.append(status(StatusCode.ASSIGNMENT_DELAYED, delay))
    return present


def first(shard: ShardState, group: StreamsGroup, now_ms: int) -> GroupOutcome:
    """Compute the target at the end of the initial delay."""
    if group.is_empty or group.topology is None or group.target_epoch >= group.epoch:
        return Outcome()
    return _assign_now(shard, group, now_ms)


def computed(shard: ShardState, group: StreamsGroup, event: TargetComputed, now_ms: int) -> GroupOutcome:
    """Apply the result of ``ComputeTasks``."""
    shard.timers.cancel(TimerKey(group.group_id, None, TimerKind.ASSIGNMENT))
    result = event.result
    if group.target_epoch >= group.epoch or group.is_empty:
        return Outcome()
    if isinstance(result, AssignorFailure):
        group.failure = result
        group.failure_retry_ms = now_ms + FAILURE_RETRY_MS
        return Outcome()
    assert isinstance(result, Mapping), f"the result must be a target, not {result!r}"
    # A static member may have rejoined with another id, which does not bump the epoch.
    if event.group_epoch != group.epoch or result.keys() != group.members.keys():
        return _assign_now(shard, group, now_ms)
    group.failure, group.failure_retry_ms = None, 0

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        group.failure_retry_ms = now.monotonic_ms + FAILURE_RETRY_MS
        return Outcome()

    records = _records(shard, group, group.members, result, group.epoch)
    return Outcome(records=records, on_failure=on_failure)


def group_spec(
    group: StreamsGroup, members: Iterable[StreamsMember], config: StreamsGroupConfig
) -> GroupSpec:
    """The input of a task assignor."""
    specs: dict[str, AssignmentMember] = {}
    for member in members:
        current = group.target_of(member)
        # A member without a heartbeat since the load is assumed to restore what it has not reported.
        reported = group.task_offsets.get(member.member_id, NOTHING_REPORTED)
        specs[member.member_id] = AssignmentMember(
            member_id=member.member_id,
            process_id=member.process_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_tags=member.client_tags,
            active=current.active,
            standby=current.standby,
            warmup=current.warmup,
            task_offsets={} if reported is None else reported.offsets,
            task_end_offsets={} if reported is None else reported.end_offsets,
            reports_offsets=reported is not None,
        )
    return GroupSpec(
        specs,
        num_standby_replicas=config.num_standby_replicas,
        acceptable_recovery_lag=config.acceptable_recovery_lag,
        max_warmup_replicas=config.num_warmup_replicas,
        rack_aware_tags=config.rack_aware_tags,
    )


def _members_with(group: StreamsGroup, new: StreamsMember) -> Mapping[str, StreamsMember]:
    """All members and ``new``, which replaces the last owner of its instance id."""
    members = dict(group.members)
    if new.instance_id is not None:
        members.pop(group.static_members.get(new.instance_id, ""), None)
    members[new.member_id] = new
    return members


def _why_not_due(
    shard: ShardState, group: StreamsGroup, group_epoch: int, config: StreamsGroupConfig, now_ms: int
) -> str | None:
    """Why no target is computed now; None if one is."""
    if shard.timers.get(TimerKey(group.group_id, None, TimerKind.ASSIGNMENT)) is not None:
        return _COMPUTING
    if group.is_target_recent(shard.wall_ms, config.assignment_interval_ms):
        return "The next assignment waits for the end of the interval (streams.assignment.interval.ms)"
    if group_epoch == group.epoch and now_ms < group.failure_retry_ms:
        if group.failure is None:
            return "The last assignment could not be written and is computed again"
        return f"The assignor {group.failure.assignor!r} failed and is tried again"
    return None


def _assign_now(shard: ShardState, group: StreamsGroup, now_ms: int) -> GroupOutcome:
    """Compute the target without a request. If that fails, the next heartbeat tries it again."""
    assert group.topology is not None
    outcome: GroupOutcome = Outcome()
    config = shard.settings.streams_config_of(group.group_id)
    try:
        configured = configure(group.topology, shard.topics)
        configured.check_size(config.num_standby_replicas)
        result = _assign(shard, group, group.epoch, group.members, configured, config, now_ms, outcome)
    except KafkaError:
        return outcome
    if result is not None:
        outcome.append(_records(shard, group, group.members, result, group.epoch))
    return outcome


def _assign(
    shard: ShardState,
    group: StreamsGroup,
    group_epoch: int,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    config: StreamsGroupConfig,
    now_ms: int,
    outcome: GroupOutcome,
) -> TaskAssignment | None:
    """The target; None if a query computes it. Raises KafkaError if the assignor fails."""
    if not configured.is_ready:
        return {}
    spec, topology = group_spec(group, members.values(), config), configured.for_assignor()
    if configured.task_count * (1 + config.num_standby_replicas) > MAX_INLINE_TASKS:
        query = ComputeTasks(group.group_id, group_epoch, config.assignor, spec, topology)
        outcome.add(pending_query(shard, query, now_ms))
        return None
    try:
        return shard.task_assignors[config.assignor].assign(spec, topology)
    except TaskAssignorError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The assignor {config.assignor!r} failed for group {group.group_id!r}: {error}",
        ) from error


def _records(
    shard: ShardState,
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    result: TaskAssignment,
    epoch: int,
) -> list[GroupRecord]:
    records = []
    for member_id in members:
        target = result.get(member_id, NO_TARGET_TASKS)
        if group.target.get(member_id) != target:
            records.append(target_record(group.group_id, member_id, target))
    records.append(target_epoch_record(group.group_id, epoch, shard.wall_ms))
    return records
