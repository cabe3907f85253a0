"""OffsetDelete: deletes offsets of topics that no member subscribes to (KIP-496)."""

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
        results = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(results)
        info = shard.topics.by_name(topic.name)
        partition_count = 0 if info is None else info.partition_count
        subscribed = group.subscribes_to(topic.name)
        for partition in dict.fromkeys(each.partition_index for each in topic.partitions):
            code = ErrorCode.NONE
            if not 0 <= partition < partition_count:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif store.has(group.group_id, topic.name, partition):
                records.append(offset_tombstone(group.group_id, topic.name, partition))
            results.partitions.append(
                OffsetDeleteResponsePartition(partition_index=partition, error_code=code)
            )
    return records, response
