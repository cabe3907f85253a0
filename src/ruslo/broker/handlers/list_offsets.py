"""ListOffsets v1-11: the offset at a time, or at one of the special places.

v2 isolation level, v4 current leader epoch (KIP-320), v5 OFFSET_NOT_AVAILABLE, v7 max timestamp (-3), v8
earliest local (-4), v9 latest tiered (-5), v10 timeout, v11 earliest pending upload (-6).

Negative timestamps name places: -1 the end a consumer may read to (high watermark, or last stable offset
under read_committed), -2 the start, -3 the first record that has the largest timestamp, -4 the first local
offset (as -2: nothing is tiered), -5 and -6 the tiered side, which is empty. Otherwise: the first record
whose timestamp is at least the one given. Not finding any is not an error but offset -1.

A new leader whose high watermark has not reached the start of its epoch yet cannot say where the end is, and
asks the client to come again (KIP-207).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from ruslo.broker.handlers.services import Services
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from ruslo.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ruslo.storage.log import Log

BoundOf: TypeAlias = Callable[[Log], int]
"""How far whoever asks may read."""

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
    if request.replica_id >= 0:
        bound = _end_of_log
    elif request.isolation_level == READ_COMMITTED:
        bound = _last_stable_offset
    else:
        bound = _high_watermark
    listed = Counter(
        (topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions
    )
    # A partition that is listed twice has no single answer.
    duplicates = {place for place, count in listed.items() if count > 1}
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(services, topic.name, asked, bound, duplicates, context)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    services: Services,
    topic: str,
    asked: ListOffsetsPartition,
    bound_of: BoundOf,
    duplicates: set[tuple[str, int]],
    context: RequestContext,
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    try:
        if (topic, asked.partition_index) in duplicates:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if asked.timestamp < EARLIEST_PENDING_UPLOAD or context.api_version < SINCE_VERSION.get(
            asked.timestamp, 0
        ):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = services.partitions.get(topic, asked.partition_index)
        partition.require_leader(asked.current_leader_epoch)
        _look_up(partition, asked.timestamp, bound_of, answer)
    except KafkaError as error:
        answer.error_code = error.code
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < OFFSET_NOT_AVAILABLE_FROM:
            answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    except StorageError as error:
        services.partitions.storage_failed(error)
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    if context.api_version < LEADER_EPOCH_FROM:
        answer.leader_epoch = -1
    return answer


def _end_of_log(log: Log) -> int:
    """For other replicas, which read all there is."""
    return log.end_offset


def _high_watermark(log: Log) -> int:
    return log.high_watermark


def _last_stable_offset(log: Log) -> int:
    return log.last_stable_offset


def _look_up(
    partition: Partition, timestamp: int, bound_of: BoundOf, answer: ListOffsetsPartitionResponse
) -> None:
    log = partition.log
    bound = bound_of(log)
    if timestamp == LATEST:
        if bound_of is not _end_of_log:
            partition.require_end_offset()
        answer.offset = bound
        answer.leader_epoch = partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.start_offset
        answer.leader_epoch = log.epochs.epoch_at(log.start_offset)
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
            answer.offset = found.offset
            answer.timestamp = found.timestamp
            answer.leader_epoch = log.epochs.epoch_at(found.offset)
