"""ListOffsets v1-11: the offset for a timestamp or a special timestamp.

v2 isolation level, v4 current leader epoch (KIP-320), v5 OFFSET_NOT_AVAILABLE, v7 max timestamp (-3), v8
earliest local (-4), v9 latest tiered (-5), v10 timeout, v11 earliest pending upload (-6).

=========  =============================================================================================
timestamp  offset
=========  =============================================================================================
-1         the end for the consumer: the high watermark, or the last stable offset with read_committed
-2         the log start offset
-3         the first record that has the largest timestamp
-4         the first local offset, the same as -2 without tiered storage
-5, -6     offsets of tiered storage, which is empty
other      the first record with at least this timestamp; -1 if there is none, which is not an error
=========  =============================================================================================

A new leader whose high watermark has not reached the start of its epoch does not know the end offset yet: the
client has to retry (KIP-207).
"""

from __future__ import annotations

from collections import Counter

from ruslo.broker.handlers.services import Services
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from ruslo.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SINCE_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

READ_COMMITTED = 1
LEADER_EPOCH_FROM = 4
OFFSET_NOT_AVAILABLE_FROM = 5


def handle(services: Services, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    counts = Counter(
        (topic.name, listed.partition_index) for topic in request.topics for listed in topic.partitions
    )
    # A partition that is listed twice has no single result.
    duplicates = {tp for tp, count in counts.items() if count > 1}
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _list_offset(services, request, topic.name, listed, duplicates, context)
                    for listed in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _list_offset(
    services: Services,
    request: ListOffsetsRequest,
    topic: str,
    listed: ListOffsetsPartition,
    duplicates: set[tuple[str, int]],
    context: RequestContext,
) -> ListOffsetsPartitionResponse:
    result = ListOffsetsPartitionResponse(partition_index=listed.partition_index)
    try:
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        if (topic, listed.partition_index) in duplicates:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if listed.timestamp < EARLIEST_PENDING_UPLOAD or context.api_version < SINCE_VERSION.get(
            listed.timestamp, 0
        ):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = services.partitions.get(topic, listed.partition_index)
        partition.require_leader(listed.current_leader_epoch)
        _look_up(partition, listed.timestamp, request, result)
    except KafkaError as error:
        result.error_code = error.code
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < OFFSET_NOT_AVAILABLE_FROM:
            result.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    except StorageError as error:
        services.partitions.storage_failed(error)
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    if context.api_version < LEADER_EPOCH_FROM:
        result.leader_epoch = -1
    return result


def _look_up(
    partition: Partition, timestamp: int, request: ListOffsetsRequest, result: ListOffsetsPartitionResponse
) -> None:
    log = partition.log
    bound = log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark
    if request.replica_id >= 0:
        # Followers read up to the log end.
        bound = log.end_offset
    if timestamp == LATEST:
        if request.replica_id < 0:
            partition.require_end_offset()
        result.offset = bound
        result.leader_epoch = partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        result.offset = log.start_offset
        result.leader_epoch = log.epochs.epoch_at(log.start_offset)
    elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        pass
    else:
        if timestamp == MAX_TIMESTAMP:
            found = log.max_timestamp_offset(bound)
        else:
            found = log.offset_for_timestamp(timestamp, bound)
        if found is None:
            partition.require_end_offset()
        else:
            result.offset = found.offset
            result.timestamp = found.timestamp
            result.leader_epoch = log.epochs.epoch_at(found.offset)
