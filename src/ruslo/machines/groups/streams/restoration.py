"""How far members have restored the state of their tasks, as they report it (KIP-441). It is not logged.

A new assignment is due when a standby or warm-up task has caught up, because it may become active.
"""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.assignors.streams.model import TaskId
from ruslo.machines.assignors.streams.recovery_lags import recovery_lag
from ruslo.machines.groups.streams.group import StreamsGroup, TaskOffsets
from ruslo.machines.groups.streams.member import StreamsMember
from ruslo.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, TaskOffset

OFFSETS_MIN_VERSION = 1
"""Below this version no client reports the offsets of its tasks."""


def store_offsets(
    group: StreamsGroup,
    member: StreamsMember,
    request: StreamsGroupHeartbeatRequest,
    api_version: int,
    acceptable_lag: int,
) -> bool:
    """Keep the offsets of a request. Returns whether a new assignment is due."""
    if request.member_id not in group.task_offsets:
        # Members whose join could not be written left an entry.
        for member_id in group.task_offsets.keys() - group.members.keys():
            del group.task_offsets[member_id]
    if api_version < OFFSETS_MIN_VERSION and request.task_offsets is None:
        group.task_offsets[request.member_id] = None
        return False
    known = group.task_offsets.get(request.member_id) or TaskOffsets()
    group.task_offsets[request.member_id] = known
    before = _caught_up(member, known, acceptable_lag)
    if request.task_offsets is not None:
        known.offsets = _offsets(request.task_offsets)
    if request.task_end_offsets is not None:
        known.end_offsets = _offsets(request.task_end_offsets)
    now = _caught_up(member, known, acceptable_lag)
    is_target_current = group.target_epoch >= group.epoch
    return not now <= before or (is_target_current and not now.isdisjoint(member.assigned.warmup))


def _caught_up(member: StreamsMember, known: TaskOffsets, acceptable_lag: int) -> set[TaskId]:
    return {
        task
        for task in (*member.assigned.standby, *member.assigned.warmup)
        if task in known.offsets
        and task in known.end_offsets
        and recovery_lag(known.offsets[task], known.end_offsets[task]) <= acceptable_lag
    }


def _offsets(reported: Iterable[TaskOffset]) -> dict[TaskId, int]:
    return {TaskId(each.subtopology_id, each.partition): each.offset for each in reported}
