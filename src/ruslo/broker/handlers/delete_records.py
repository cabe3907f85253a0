"""DeleteRecords v0-2: moves the start of a partition's log forward; -1 means up to the high watermark.

A topic that is only compacted refuses it: its records go by key, not by age.
"""

from __future__ import annotations

from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import Services
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from ruslo.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

UNKNOWN_LOW_WATERMARK = -1


async def handle(
    services: Services, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(services, topic.name, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    # Not left to the next checkpoint: what was answered as deleted must not come back after a crash.
    await services.partitions.run_jobs(services.logs.log_start_jobs())
    return response


def _delete(services: Services, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=UNKNOWN_LOW_WATERMARK
    )
    try:
        partition = services.partitions.get(topic, asked.partition_index)
        partition.require_leader()
        answer.low_watermark = partition.log.delete_records_before(asked.offset)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
