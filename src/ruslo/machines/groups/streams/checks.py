"""The checks of a StreamsGroupHeartbeat that need no group."""

from __future__ import annotations

from ruslo.machines.groups.epoch_group import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from ruslo.machines.groups.group import invalid_request
from ruslo.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest

NOT_GIVEN = -1


def check(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError if the request contradicts itself or the protocol."""
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
        if not value:
            raise invalid_request(f"{name} can't be empty.")
    for name, text in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if text == "":
            raise invalid_request(f"{name} is empty. Use null if there is none.")
    for each in () if request.topology is None else request.topology.subtopologies:
        if each.source_topic_regex:
            raise invalid_request(
                "Regular expressions for source topics are not supported. Name the topics, or use "
                "group.protocol=classic."
            )
    _check_epoch(request)
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is not None for tasks in roles) and any(tasks is None for tasks in roles):
        raise invalid_request("ActiveTasks, StandbyTasks and WarmupTasks must be given together")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise invalid_request("Only a joining member sends the topology")


def _check_epoch(request: StreamsGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == NOT_GIVEN:
            raise invalid_request("RebalanceTimeoutMs is required to join")
        for name, tasks in (
            ("ActiveTasks", request.active_tasks),
            ("StandbyTasks", request.standby_tasks),
            ("WarmupTasks", request.warmup_tasks),
        ):
            if tasks is None or tasks:
                raise invalid_request(f"{name} must be empty to join")
        if request.topology is None:
            raise invalid_request("Topology is required to join")
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise invalid_request("InstanceId is required to leave with MemberEpoch -2")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise invalid_request(f"MemberEpoch {epoch} is invalid")
