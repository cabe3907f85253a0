"""DeleteRecords v0-2: moves the start of a partition's log forward; -1 means up to the high watermark.

It is answered when the in-sync replicas have followed: whoever leads next must not show what is deleted. A
topic that is only compacted refuses it: its records go by key, not by age. So do internal topics, always.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ruslo.broker.handlers.services import Services
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.requests.context import RequestContext
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
    """One that the leader's own log has carried out."""

    answer: DeleteRecordsPartitionResult
    partition: Partition
    leader_epoch: int
    low_watermark: int
    followed: asyncio.Future[None] | None


async def handle(
    services: Services, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    deletions: list[_Deletion] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(services, topic.name, asked, deletions) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    # Not left to the next checkpoint: what was answered as deleted must not come back after a crash.
    await services.partitions.run_jobs(services.logs.log_start_jobs())
    followed = [each.followed for each in deletions if each.followed is not None]
    if followed:
        await asyncio.wait(followed, timeout=max(request.timeout_ms, 0) / 1000)
    for deletion in deletions:
        _conclude(deletion)
    return response


def _delete(
    services: Services, topic: str, asked: DeleteRecordsPartition, deletions: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=UNKNOWN_LOW_WATERMARK
    )
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
        partition = services.partitions.get(topic, asked.partition_index)
        followed = partition.delete_records_before(asked.offset)
    except KafkaError as error:
        answer.error_code = error.code
    else:
        start_offset = partition.log.start_offset
        deletions.append(_Deletion(answer, partition, partition.leader_epoch, start_offset, followed))
    return answer


def _conclude(deletion: _Deletion) -> None:
    answer, partition = deletion.answer, deletion.partition
    if not partition.is_leader or partition.leader_epoch != deletion.leader_epoch:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif deletion.followed is not None and not deletion.followed.done():
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT
    else:
        answer.low_watermark = deletion.low_watermark
