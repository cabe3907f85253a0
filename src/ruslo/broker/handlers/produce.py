"""Produce v3-13: append batches, answer when they are as safe as ``acks`` asks.

v5 log start offset, v7 zstd, v8 record errors (KIP-467), v9 flexible, v10 leader hints (KIP-951), v11 and
v12 transactions (KIP-890), v13 topic ids. acks 0: no answer at all, an error closes the connection; 1 and
-1: after the append, or when ``flush.messages`` wants it, after the sync.

This is the hot path: one call from frame to answer, nothing per record, no task, no thread. Where an append
fails for a reason nobody foresaw the connection breaks instead of answering UNKNOWN_SERVER_ERROR: a
producer retries the former safely, but takes the latter for "not appended".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ruslo.broker.partitions.purgatory import DelayedProduce
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.produce_codec import PartitionResult, decode_produce_request, encode_produce_response
from ruslo.records.batch import ATTRIBUTES_AT, CODEC_MASK, HEADER_SIZE
from ruslo.records.compression import Codec
from ruslo.records.validation import BatchRefused

if TYPE_CHECKING:
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.broker.partitions.partition import Partition
    from ruslo.model.clock import Clock
    from ruslo.net.connection import Connection, Reply

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
ZSTD_FROM = 7

_FRAME_HEAD = struct.Struct(">ii")

Results = list[tuple[str | bytes, list[PartitionResult]]]
Unsafe = tuple[int, int, "Partition", int]
"""Place in the results (topic, partition), the partition, the offset its high watermark must reach."""


class ProduceHandler:
    def __init__(self, partitions: PartitionManager, clock: Clock) -> None:
        self._partitions = partitions
        self._clock = clock

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None:
        transactional_id, acks, timeout_ms, topics = decode_produce_request(buf, pos, end, version)
        by_topic = self._partitions.by_id if version >= TOPIC_IDS_FROM else self._partitions.by_name
        now_ms = self._clock.now_ms()
        view = memoryview(buf)
        results: Results = []
        unsafe: list[Unsafe] = []
        failed = False
        for topic, asked in topics:
            known = by_topic.get(topic)
            answers: list[PartitionResult] = []
            for index, start, stop in asked:
                partition = known.get(index) if known is not None else None
                try:
                    if partition is None or acks not in (0, 1, -1) or version < ZSTD_FROM:
                        partition = self._check(partition, topic, index, acks, version, view[start:stop])
                    appended = partition.append(view[start:stop], now_ms)
                except KafkaError as error:
                    failed = True
                    if error.code is ErrorCode.INVALID_TXN_STATE and transactional_id is None:
                        error = KafkaError(
                            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                            "a transactional batch came in a request without transactional id",
                        )
                    answers.append(_refusal(index, error))
                    continue
                except StorageError as error:
                    failed = True
                    self._partitions.storage_failed(error)
                    answers.append(_refusal(index, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))))
                    continue
                log = partition.log
                if appended.end_offset > log.high_watermark:
                    unsafe.append((len(results), len(answers), partition, appended.end_offset))
                answers.append(
                    (
                        index,
                        0,
                        appended.base_offset,
                        appended.log_append_time_ms,
                        log.start_offset,
                        None,
                        None,
                        None,
                    )
                )
            results.append((topic, answers))
        if acks == 0:
            if failed:
                connection.close()
        elif unsafe:
            self._wait(connection.defer(), results, unsafe, timeout_ms, version, correlation_id)
        else:
            connection.send(_encode(results, version, correlation_id))

    def _check(
        self,
        partition: Partition | None,
        topic: str | bytes,
        index: int,
        acks: int,
        version: int,
        batch: memoryview,
    ) -> Partition:
        """The conditions that hold for nearly every request, looked at one by one."""
        if partition is None:
            raise self._partitions.missing(topic, index)
        if acks not in (0, 1, -1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it can be 0, 1 or -1 (all)")
        if (
            len(batch) >= HEADER_SIZE
            and batch[ATTRIBUTES_AT + 1] & CODEC_MASK == Codec.ZSTD
            and version < ZSTD_FROM
        ):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs Produce v{ZSTD_FROM}, this is v{version}; use another compression.type",
            )
        return partition

    def _wait(
        self,
        reply: Reply,
        results: Results,
        unsafe: list[Unsafe],
        timeout_ms: int,
        version: int,
        correlation_id: int,
    ) -> None:
        def complete() -> None:
            for topic_at, at, partition, end_offset in unsafe:
                if partition.log.high_watermark < end_offset:
                    index = results[topic_at][1][at][0]
                    results[topic_at][1][at] = _refusal(index, _why_unsafe(partition, delayed.late))
            reply.send((_encode(results, version, correlation_id),))

        delayed = DelayedProduce(len(unsafe), timeout_ms, complete)
        for _, _, partition, end_offset in unsafe:
            partition.when_safe(end_offset, delayed)


def _why_unsafe(partition: Partition, late: bool) -> KafkaError:
    if late:
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "the records are appended but not yet known to be safe"
        )
    if partition.log.failure is not None:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(partition.log.failure))
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _refusal(index: int, error: KafkaError) -> PartitionResult:
    record_errors = error.record_errors if isinstance(error, BatchRefused) else None
    return (index, error.code, -1, -1, -1, record_errors, error.message, None)


def _encode(results: Results, version: int, correlation_id: int) -> bytearray:
    out = bytearray(9 if version >= FLEXIBLE_FROM else 8)
    encode_produce_response(out, version, results)
    _FRAME_HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
    return out
