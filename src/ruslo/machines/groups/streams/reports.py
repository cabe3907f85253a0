"""What a member reports besides its tasks: the progress of its state, and requests for a shutdown.

It is not logged; members report it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.assignors.streams.model import TaskId
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.group import NO_TARGET_TASKS, StreamsGroup, TaskOffsets
from ruslo.machines.groups.streams.settings import StreamsGroupConfig
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    TaskOffset,
)

OFFSETS_MIN_VERSION = 1
"""Below this version no client reports the offsets of its tasks."""


def store_reports(
    shard: ShardState,
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    info: RequestInfo,
    config: StreamsGroupConfig,
    outcome: GroupOutcome,
) -> bool:
    """Returns whether another standby or warm-up task has caught up, so a new target may make it active."""
    if request.shutdown_application:
        request_shutdown(group, request.member_id)
    if request.member_id not in group.task_offsets:
        # Members whose join could not be written left an entry.
        for member_id in group.task_offsets.keys() - group.members.keys():
            del group.task_offsets[member_id]
    has_offsets = request.task_offsets is not None or request.task_end_offsets is not None
    if info.api_version < OFFSETS_MIN_VERSION and not has_offsets:
        group.task_offsets[request.member_id] = None
        return False
    known = group.task_offsets.get(request.member_id) or TaskOffsets()
    group.task_offsets[request.member_id] = known
    if request.task_offsets is not None:
        known.offsets = _offsets(request.task_offsets)
    if request.task_end_offsets is not None:
        known.end_offsets = _offsets(request.task_end_offsets)
    if not shard.task_assignors[config.assignor].uses_offsets:
        return False
    tasks = group.target.get(request.member_id, NO_TARGET_TASKS)
    restoring = tasks.warmup | tasks.standby
    before, known.caught_up = known.caught_up, known.caught_up_of(restoring, config.acceptable_recovery_lag)
    if known.caught_up <= before:
        return False

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        known.caught_up = before
        return Outcome()

    outcome.add(Outcome(on_failure=on_failure))
    return True


def _offsets(reported: Iterable[TaskOffset]) -> dict[TaskId, int]:
    return {TaskId(each.subtopology_id, each.partition): each.offset for each in reported}


def request_shutdown(group: StreamsGroup, member_id: str) -> None:
    if group.shutdown_requester is None:
        group.shutdown_requester = member_id
