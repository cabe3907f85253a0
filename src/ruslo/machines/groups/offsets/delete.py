"""OffsetDelete: offsets of topics that nobody in the group reads (KIP-496)."""

from __future__ import annotations

from ruslo.machines.groups.records import GroupRecord, offset_tombstone
from ruslo.machines.groups.state import ShardState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ruslo.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete(shard: ShardState, request: OffsetDeleteRequest) -> tuple[list[GroupRecord], OffsetDeleteResponse]:
    group = shard.groups.get(request.group_id)
    if not request.group_id:
        return [], OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    if group is None:
        return [], OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    code = group.check_offset_delete()
    if code is not ErrorCode.NONE:
        return [], OffsetDeleteResponse(error_code=code)
    records: list[GroupRecord] = []
    response = OffsetDeleteResponse()
    store = shard.offsets
    for topic in request.topics:
        code = ErrorCode.NONE
        if shard.topics.by_name(topic.name) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif group.subscribes_to(topic.name):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        partitions = [each.partition_index for each in topic.partitions]
        response.topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=partition, error_code=code)
                    for partition in partitions
                ],
            )
        )
        if code is not ErrorCode.NONE:
            continue
        for partition in dict.fromkeys(partitions):
            committed = store.get(group.group_id, topic.name, partition) is not None
            if committed or store.is_pending(group.group_id, topic.name, partition):
                records.append(offset_tombstone(group.group_id, topic.name, partition))
    return records, response
