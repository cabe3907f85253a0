"""AlterShareGroupOffsets and DeleteShareGroupOffsets, for groups without members (KIP-932).

Both change states at the share coordinator, so their responses wait for it. Altering an offset initializes
the state again, with that start offset. Deleting removes the states of a topic, so the group is new there.
"""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.groups.group import SHARE, not_found_error
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.share import initialization, pending
from ruslo.machines.groups.share.events import (
    UNINITIALIZED_START_OFFSET,
    DeleteShareState,
    InitializeShareState,
    ShareStateDeleted,
    ShareStateInitialized,
)
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.share.partition_states import NamedPartitions
from ruslo.machines.groups.share.records import states_record
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.machines.machine import Outcome
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
)
from ruslo.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ruslo.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ruslo.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


def alter(
    shard: ShardState, request: AlterShareGroupOffsetsRequest, token: Hashable, now_ms: int
) -> GroupOutcome:
    try:
        group = _empty_group(shard, request.group_id, create=True)
    except KafkaError as error:
        refused = AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
        return respond(token, refused)
    response = AlterShareGroupOffsetsResponse()
    offsets: dict[Uuid, dict[int, int]] = {}
    topics: dict[Uuid, NamedPartitions] = {}
    for requested in request.topics:
        topic = shard.topics.by_name(requested.topic_name)
        results = AlterShareGroupOffsetsResponseTopic(topic_name=requested.topic_name)
        response.responses.append(results)
        for partition in requested.partitions:
            code, problem = _check_partition(requested.topic_name, topic, partition)
            results.partitions.append(
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=partition.partition_index, error_code=code, error_message=problem
                )
            )
            if topic is not None and code is ErrorCode.NONE:
                offsets.setdefault(topic.id, {})[partition.partition_index] = partition.start_offset
        if topic is not None:
            results.topic_id = topic.id
            if topic.id in offsets:
                topics[topic.id] = NamedPartitions(topic.name, frozenset(offsets[topic.id]))
    if not offsets:
        return respond(token, response)
    outcome: GroupOutcome = Outcome()
    query = InitializeShareState(request.group_id, group.epoch, offsets, token)
    pending.wait(shard, token, pending.PendingAlter(response), [], outcome)
    initialization.request(shard, group, query, topics, now_ms, outcome)
    return outcome


def altered(shard: ShardState, event: ShareStateInitialized) -> GroupOutcome:
    """Write the result down, and respond to the request that waits for it."""
    outcome = initialization.finished(shard, event)
    waiting = shard.share_requests.pop(event.token, None) if event.token is not None else None
    if waiting is None:
        return outcome
    assert isinstance(waiting, pending.PendingAlter)
    for topic in waiting.response.responses:
        codes = event.codes.get(topic.topic_id, {})
        for result in topic.partitions:
            if not result.error_code:
                result.error_code = codes.get(result.partition_index, ErrorCode.UNKNOWN_SERVER_ERROR)
                if result.error_code:
                    result.error_message = "The share coordinator could not set the start offset. Try again."
    return outcome.reply(event.token, waiting.response)


def delete(shard: ShardState, request: DeleteShareGroupOffsetsRequest, token: Hashable) -> GroupOutcome:
    try:
        group = _empty_group(shard, request.group_id, create=False)
    except KafkaError as error:
        refused = DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
        return respond(token, refused)
    response = DeleteShareGroupOffsetsResponse()
    partitions: dict[Uuid, frozenset[int]] = {}
    names: dict[Uuid, str] = {}
    for name in dict.fromkeys(each.topic_name for each in request.topics):
        topic = shard.topics.by_name(name)
        if topic is None:
            response.responses.append(_undeletable(name, f"Topic {name!r} does not exist"))
        elif topic.id in group.states.initialized:
            partitions[topic.id] = group.states.initialized_partitions(topic.id)
        elif topic.id in group.states.deleting:
            # An earlier deletion failed.
            partitions[topic.id] = frozenset(range(topic.partition_count))
        else:
            response.responses.append(_undeletable(name, f"The group has no offsets of topic {name!r}"))
        if topic is not None and topic.id in partitions:
            names[topic.id] = name
    if not partitions:
        return respond(token, response)
    outcome: GroupOutcome = Outcome(
        records=[states_record(group.group_id, group.states.with_deleting(names))]
    )
    pending.wait(
        shard,
        token,
        pending.PendingOffsetDeletion(response, names),
        [DeleteShareState(group.group_id, partitions, token)],
        outcome,
    )
    return outcome


def deleted(
    shard: ShardState, event: ShareStateDeleted, waiting: pending.PendingOffsetDeletion
) -> GroupOutcome:
    del shard.share_requests[event.token]
    outcome: GroupOutcome = Outcome(linearizable=True)
    failed = failures(event)
    response = waiting.response
    for topic_id, name in waiting.names.items():
        code = failed.get(topic_id, ErrorCode.NONE)
        problem = "The share coordinator could not delete the offsets. Try again." if code else None
        response.responses.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=topic_id, error_code=code, error_message=problem
            )
        )
    group = shard.groups.get(event.group_id)
    done = waiting.names.keys() - failed.keys()
    if isinstance(group, ShareGroup) and not done.isdisjoint(group.states.deleting):
        outcome.append([states_record(group.group_id, group.states.without_deleting(done))])
    return outcome.reply(event.token, response)


def failures(event: ShareStateDeleted) -> dict[Uuid, ErrorCode]:
    """An error of each topic that has one."""
    return {
        topic_id: code
        for topic_id, codes in event.codes.items()
        for code in codes.values()
        if code is not ErrorCode.NONE
    }


def _empty_group(shard: ShardState, group_id: str, *, create: bool) -> ShareGroup:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty")
    group = shard.groups.get(group_id)
    if group is None and create:
        return ShareGroup(group_id)
    if not isinstance(group, ShareGroup):
        raise not_found_error(group_id, group, SHARE)
    if not group.is_empty:
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"Group {group_id!r} has members. Stop them before you change its offsets.",
        )
    return group


def _check_partition(
    name: str, topic: TopicInfo | None, partition: AlterShareGroupOffsetsRequestPartition
) -> tuple[ErrorCode, str | None]:
    index = partition.partition_index
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} does not exist"
    if not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} has no partition {index}"
    if partition.start_offset < UNINITIALIZED_START_OFFSET:
        return ErrorCode.INVALID_REQUEST, f"Start offset {partition.start_offset} is negative"
    return ErrorCode.NONE, None


def _undeletable(name: str, problem: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=problem
    )
