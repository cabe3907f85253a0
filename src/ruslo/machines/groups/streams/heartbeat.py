"""StreamsGroupHeartbeat (KIP-1071): joins and leaves groups, reports tasks, and renews sessions.

v1: the acceptable recovery lag as int64, missing client tags, and requests for the topology description
(KIP-1331).

Epoch 0 joins, -1 leaves, and -2 is a static member that leaves temporarily. Null means unchanged, so most
requests contain only the epoch, and most responses no tasks.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ruslo.machines.assignors.streams.model import MemberTasks
from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.consumer import topic_hash
from ruslo.machines.groups.epoch_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    check_room,
    watch_revocation,
)
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.group import not_found_error
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams import fencing, membership, target
from ruslo.machines.groups.streams.checks import NOT_GIVEN, check
from ruslo.machines.groups.streams.configured_topology import ConfiguredTopology, configure
from ruslo.machines.groups.streams.group import NOT_VALIDATED, StreamsGroup
from ruslo.machines.groups.streams.member import MemberState, StreamsMember, UserEndpoint
from ruslo.machines.groups.streams.reconcile import reconcile
from ruslo.machines.groups.streams.records import current_record, epoch_record, member_record
from ruslo.machines.groups.streams.reports import request_shutdown, store_reports
from ruslo.machines.groups.streams.response import (
    add_endpoints,
    add_of_newer_version,
    add_tasks,
)
from ruslo.machines.groups.streams.settings import StreamsGroupConfig
from ruslo.machines.groups.streams.status import (
    StatusCode,
    status,
)
from ruslo.machines.groups.streams.tasks import task_ids
from ruslo.machines.groups.streams.topology import StreamsTopology, requested_topology
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Topology,
)
from ruslo.protocol.messages.streams_group_heartbeat_response import (
    Status,
    StreamsGroupHeartbeatResponse,
)


def handle(
    shard: ShardState,
    request: StreamsGroupHeartbeatRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    try:
        check(request)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return _leave(shard, request, token)
        return _heartbeat(shard, request, info, token, now_ms)
    except KafkaError as error:
        refused = StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return respond(token, refused)


def _heartbeat(
    shard: ShardState,
    request: StreamsGroupHeartbeatRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    outcome: GroupOutcome = Outcome(linearizable=True)
    statuses: list[Status] = []
    config = shard.settings.streams_config_of(request.group_id)
    joins = request.member_epoch == JOIN_EPOCH
    group = _group(shard, request.group_id, outcome, create=joins)
    group_id, member_id = group.group_id, request.member_id
    owned = _owned(request)
    if joins:
        check_room(group, member_id, shard.settings.streams.max_size)
        member = membership.admitted(group, member_id, request.instance_id, outcome)
    else:
        member = group.identified(member_id, request.instance_id)
    membership.check_epoch(member, request.member_epoch, owned)

    updated = _updated(member, request, info)
    if updated != member:
        outcome.append([member_record(group_id, updated)])
    topology = _topology(group, request.topology, outcome)
    if updated.topology_epoch < topology.epoch:
        detail = f"The member has topology epoch {updated.topology_epoch}, the group {topology.epoch}"
        statuses.append(status(StatusCode.STALE_TOPOLOGY, detail))
    bumps = updated != member if request.instance_id is None else _matters_to_others(group, member, updated)
    bumps = store_reports(shard, group, request, info, config, outcome) or bumps
    group_epoch, configured = _refresh(shard, group, topology, config, owned, outcome, bumps=bumps)
    if (reported := group.task_offsets.get(member_id)) is not None:
        # A client could send offsets of any number of tasks.
        reported.keep(configured.has_task)

    if group.is_empty and config.initial_rebalance_delay_ms:
        shard.timers.set_once(
            TimerKey(group_id, None, TimerKind.INITIAL_DELAY), now_ms + config.initial_rebalance_delay_ms
        )
    target_epoch, tasks = target.update(
        shard, group, group_epoch, updated, configured, config, now_ms, outcome, statuses
    )
    moved = reconcile(group, updated, target_epoch=target_epoch, target=tasks, owned=owned)
    if moved != updated:
        outcome.append([current_record(group_id, moved)])
        if moved.state is MemberState.UNREVOKED:
            watch_revocation(shard, group_id, moved, now_ms)
        else:
            shard.timers.cancel(TimerKey(group_id, member_id, TimerKind.REBALANCE))
    shard.timers.set(TimerKey(group_id, member_id, TimerKind.SESSION), now_ms + config.session_timeout_ms)

    response = StreamsGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=moved.epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        status=statuses,
    )
    if joins or moved.assigned != member.assigned:
        add_tasks(response, moved)
        group.endpoint_partitions.pop(member_id, None)
        if moved.endpoint is not None:
            group.endpoint_epoch += 1
    add_endpoints(shard, group, request, response, moved)
    add_of_newer_version(group, topology, config, moved, info, response)
    if configured.problem is not None:
        statuses.append(status(configured.problem.code, configured.problem.detail))
    if group.shutdown_requester is not None:
        detail = f"Member {group.shutdown_requester} has requested the shutdown of the application"
        statuses.append(status(StatusCode.SHUTDOWN_APPLICATION, detail))
    return outcome.reply(token, response)


def _leave(shard: ShardState, request: StreamsGroupHeartbeatRequest, token: Hashable) -> GroupOutcome:
    group = shard.groups.get(request.group_id)
    if not isinstance(group, StreamsGroup):
        raise not_found_error(request.group_id)
    if request.shutdown_application:
        request_shutdown(group, request.member_id)
    member = group.identified(request.member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        outcome = fencing.leave_temporarily(shard, group, member)
    else:
        outcome = fencing.remove(shard, group, [member])
    response = StreamsGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    return outcome.reply(token, response)


def _group(shard: ShardState, group_id: str, outcome: GroupOutcome, *, create: bool) -> StreamsGroup:
    """The group. If it is created or converted here, it exists when the records are replayed."""
    group = shard.groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    if create and group is None:
        return StreamsGroup(group_id)
    if create and isinstance(group, ClassicGroup) and group.is_empty:
        outcome.append(group.tombstones())
        return StreamsGroup(group_id)
    raise not_found_error(group_id)


def _updated(
    member: StreamsMember, request: StreamsGroupHeartbeatRequest, info: RequestInfo
) -> StreamsMember:
    """The member with the properties of this request."""
    endpoint, tags, timeout_ms = request.user_endpoint, request.client_tags, request.rebalance_timeout_ms
    topology = request.topology
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=info.client_id,
        client_host=info.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_GIVEN else timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
    )


def _matters_to_others(group: StreamsGroup, old: StreamsMember, new: StreamsMember) -> bool:
    """Whether a static member is new, or changed a property that the target depends on."""
    if new.instance_id is None or new.instance_id not in group.static_members:
        return True
    return (old.topology_epoch, old.rack_id, old.client_tags, old.process_id) != (
        new.topology_epoch,
        new.rack_id,
        new.client_tags,
        new.process_id,
    )


def _topology(group: StreamsGroup, requested: Topology | None, outcome: GroupOutcome) -> StreamsTopology:
    """The topology of the group, which the first member brings. Raises KafkaError if it would change."""
    known = group.topology
    if requested is None:
        if known is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group.group_id!r} has no topology. Rejoin with one."
            )
        return known
    topology = requested_topology(requested)
    if known is None:
        outcome.append([topology.to_record(group.group_id)])
        return topology
    if topology.epoch >= known.epoch and topology != known:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The member's topology differs from that of group {group.group_id!r}, which cannot change. Use "
            f"another application.id, or delete the group first.",
        )
    return known


def _refresh(
    shard: ShardState,
    group: StreamsGroup,
    topology: StreamsTopology,
    config: StreamsGroupConfig,
    owned: MemberTasks | None,
    outcome: GroupOutcome,
    *,
    bumps: bool,
) -> tuple[int, ConfiguredTopology]:
    """Configure the topology if it, its topics or the configs changed. Returns the next group epoch too."""
    metadata_hash, configured = group.metadata_hash, group.configured
    if configured is None or group.refresh_due:
        metadata_hash = topic_hash.of_topics(shard.topics, topology.required_topics)
        changed = metadata_hash != group.metadata_hash
        bumps = bumps or changed
        if changed or configured is None:
            configured = configure(topology, shard.topics)
    configs = config.assignment_configs()
    if configured is not group.configured or configs != group.assignment_configs:
        configured.check_size(config.num_standby_replicas)
    _check_owned(configured, owned)
    validated = topology.epoch if configured.is_ready else NOT_VALIDATED
    epoch = group.epoch
    if bumps or validated != group.validated_topology_epoch or configs != group.assignment_configs:
        epoch += 1
        outcome.append([epoch_record(group.group_id, epoch, metadata_hash, validated, configs)])
    if configured is not group.configured:
        group.configured = configured
        group.endpoint_partitions.clear()
    group.refreshed_epoch = epoch
    return epoch, configured


def _check_owned(configured: ConfiguredTopology, owned: MemberTasks | None) -> None:
    """Raise KafkaError for tasks that do not exist."""
    if owned is None or not configured.is_ready:
        return
    for task in owned.active | owned.standby | owned.warmup:
        if not configured.has_task(task):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The topology has no task {task}")


def _owned(request: StreamsGroupHeartbeatRequest) -> MemberTasks | None:
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return MemberTasks(task_ids(active), task_ids(standby), task_ids(warmup))
