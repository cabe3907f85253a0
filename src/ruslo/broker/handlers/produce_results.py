"""The checks, results and response of Produce, with and without transactions."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ruslo.broker.counters.api_stats import ApiStats
from ruslo.broker.partitions.ack_wait import AckResult, Appended
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.net.connection import Connection
from ruslo.protocol.leader_hints import NodeEndpoint
from ruslo.protocol.produce_codec import PartitionResult, encode_produce_response
from ruslo.records.batch import ATTRIBUTES_AT, CODEC_MASK, HEADER_SIZE
from ruslo.records.compression import Codec

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
ZSTD_FROM = 7
ALL = -1
"""acks=all."""

_FRAME_HEAD = struct.Struct(">ii")

PENDING_RESULT: PartitionResult = (-1, ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1, None, None, None)

Results: TypeAlias = list[tuple[str | bytes, list[PartitionResult]]]
Unacked: TypeAlias = tuple[int, int, Appended]
"""Index of the topic and of the partition in the results, and the append that is not acknowledged yet."""
ProduceRequest: TypeAlias = "tuple[Connection, Results, list[Unacked], int, int, int, int, int, int]"
"""Connection, results, unacked appends, acks, timeout, version, correlation id, start time, size."""


def check_partition(
    partitions: PartitionManager,
    partition: Partition | None,
    topic: str | bytes,
    index: int,
    acks: int,
    version: int,
    batch: memoryview,
) -> Partition:
    """Checks that nearly every request passes; raises KafkaError."""
    if partition is None:
        raise partitions.missing(topic, index)
    if acks not in (0, 1, -1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}. Use 0, 1 or -1 (all)")
    if (
        version < ZSTD_FROM
        and len(batch) >= HEADER_SIZE
        and batch[ATTRIBUTES_AT + 1] & CODEC_MASK == Codec.ZSTD
    ):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce v{ZSTD_FROM}, this is v{version}. Use another compression.type",
        )
    return partition


def ack_error(partition: Partition, acks_all: bool, result: AckResult) -> KafkaError | None:
    """The error of an appended batch; None if it is acknowledged."""
    if result is AckResult.ACKED:
        if acks_all and not partition.has_min_isr:
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                "the records are appended, but the ISR is smaller than min.insync.replicas now",
            )
        return None
    if result is AckResult.TIMED_OUT:
        return KafkaError(result.value, "the records are appended but not yet known to be committed")
    if result is AckResult.STORAGE_ERROR:
        return KafkaError(result.value, str(partition.log.failure))
    return KafkaError(result.value)


def count_failures(
    stats: ApiStats, by_topic: Mapping[str | Uuid, Mapping[int, Partition]], results: Results
) -> None:
    """Count the failed partitions; unknown topics only count by error."""
    for topic, partition_results in results:
        known = by_topic.get(topic, {})
        for index, code, *_ in partition_results:
            if code:
                stats.record_error(code)
                if index in known:
                    known[index].traffic.failed_produces += 1


def denied_results(
    topic: str | bytes,
    listed: Sequence[tuple[int, int, int]],
    code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED,
) -> tuple[str | bytes, list[PartitionResult]]:
    """The results of a topic to which the client may not write."""
    return topic, [(index, code, -1, -1, -1, None, None, None) for index, _, _ in listed]


def appended_result(index: int, append: Appended) -> PartitionResult:
    start_offset = append.partition.log.start_offset
    return (index, 0, append.base_offset, append.log_append_time_ms, start_offset, None, None, None)


def encode(
    results: Results,
    version: int,
    correlation_id: int,
    endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> bytearray:
    out = bytearray(9 if version >= FLEXIBLE_FROM else 8)
    encode_produce_response(out, version, results, throttle_time_ms=throttle_ms, node_endpoints=endpoints)
    _FRAME_HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
    return out
