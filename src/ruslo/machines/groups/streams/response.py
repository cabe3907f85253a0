"""Fills the response to a heartbeat with the member's tasks and what newer versions have."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.assignors.streams.model import TaskId
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams import endpoints
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import StreamsMember
from ruslo.machines.groups.streams.reports import OFFSETS_MIN_VERSION
from ruslo.machines.groups.streams.settings import StreamsGroupConfig
from ruslo.machines.groups.streams.status import (
    MISSING_CLIENT_TAGS_MIN_VERSION,
    StatusCode,
    status,
)
from ruslo.machines.groups.streams.tasks import by_subtopology
from ruslo.machines.groups.streams.topology import StreamsTopology
from ruslo.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ruslo.protocol.messages.streams_group_heartbeat_response import (
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

DESCRIPTION_MIN_VERSION = 1


def add_tasks(response: StreamsGroupHeartbeatResponse, member: StreamsMember) -> None:
    response.active_tasks = _task_lists(member.assigned.active)
    response.standby_tasks = _task_lists(member.assigned.standby)
    response.warmup_tasks = _task_lists(member.assigned.warmup)


def _task_lists(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def add_endpoints(
    shard: ShardState,
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    response: StreamsGroupHeartbeatResponse,
    member: StreamsMember,
) -> None:
    if group.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = endpoints.endpoint_partitions(group, member, shard.topics)
    if shard.groups.get(group.group_id) is group:
        # The epoch of a group that is being created is lost with this object.
        response.endpoint_information_epoch = group.endpoint_epoch


def add_of_newer_version(
    group: StreamsGroup,
    topology: StreamsTopology,
    config: StreamsGroupConfig,
    member: StreamsMember,
    info: RequestInfo,
    response: StreamsGroupHeartbeatResponse,
) -> None:
    if info.api_version >= OFFSETS_MIN_VERSION:
        response.task_offset_interval_ms = config.task_offset_interval_ms
        response.acceptable_recovery_lag = config.acceptable_recovery_lag
    if info.api_version >= DESCRIPTION_MIN_VERSION:
        response.topology_description_required = (
            group.description is None or group.description[0] != topology.epoch
        ) and member.topology_epoch == topology.epoch
    if info.api_version >= MISSING_CLIENT_TAGS_MIN_VERSION:
        missing = [tag for tag in config.rack_aware_tags if tag not in member.client_tags]
        if missing and response.status is not None:
            detail = f"The member has no value for these rack-aware client tags: {', '.join(missing)}"
            response.status.append(status(StatusCode.MISSING_CLIENT_TAGS, detail))
