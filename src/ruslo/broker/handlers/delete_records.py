"""DeleteRecords v0-2: advances the log start offset of partitions; -1 means up to the high watermark.

The response is sent when the in-sync replicas have deleted the records too: the next leader must not show
them. It is an error for topics that are only compacted, whose records are removed by key, and for internal
topics.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ruslo.broker.handlers.services import Services
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import INTERNAL_TOPICS
from ruslo.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from ruslo.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

UNKNOWN_LOW_WATERMARK = -1


class _Deletion(NamedTuple):
    """A deletion that is done in the leader's own log."""

    result: DeleteRecordsPartitionResult
    partition: Partition
    leader_epoch: int
    low_watermark: int
    replicated: asyncio.Future[None] | None


async def handle(
    services: Services, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    deletions: list[_Deletion] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(services, context, topic.name, listed, deletions) for listed in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    # Checkpointed before the response: deleted records must not come back after a crash.
    await services.partitions.run_jobs(services.logs.log_start_jobs())
    replicated = [each.replicated for each in deletions if each.replicated is not None]
    if replicated:
        await asyncio.wait(replicated, timeout=max(request.timeout_ms, 0) / 1000)
    for result, partition, leader_epoch, low_watermark, done in deletions:
        if not partition.is_leader or partition.leader_epoch != leader_epoch:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif done is not None and not done.done():
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        else:
            result.low_watermark = low_watermark
    return response


def _delete(
    services: Services,
    context: RequestContext,
    topic: str,
    listed: DeleteRecordsPartition,
    deletions: list[_Deletion],
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(
        partition_index=listed.partition_index, low_watermark=UNKNOWN_LOW_WATERMARK
    )
    try:
        context.require(Operation.DELETE, ResourceType.TOPIC, topic)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
        partition = services.partitions.get(topic, listed.partition_index)
        replicated = partition.delete_records_before(listed.offset)
    except KafkaError as error:
        result.error_code = error.code
    else:
        start_offset = partition.log.start_offset
        deletions.append(_Deletion(result, partition, partition.leader_epoch, start_offset, replicated))
    return result
