"""Produce v3-13: append batches, respond when they are as durable as ``acks`` asks.

v5 log start offset, v7 zstd, v8 record errors (KIP-467), v9 flexible, v10 leader hints (KIP-951), v11 and
v12 transactions (KIP-890), v13 topic ids. acks 0: no answer at all, an error closes the connection; 1: after
the append, or when ``flush.messages`` wants it, after the sync; -1: when all in-sync replicas have it.

This is the hot path: one call from frame to answer, nothing per record, no task, no thread. Where an append
fails for a reason nobody foresaw the connection breaks instead of answering UNKNOWN_SERVER_ERROR: a
producer retries the former safely, but takes the latter for "not appended".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.broker.handlers.produce_results import (
    ALL,
    TOPIC_IDS_FROM,
    ZSTD_FROM,
    Results,
    Unacked,
    check_place,
    count_failures,
    encode,
    endpoints_of_leaders,
    refused,
    respond_when_acked,
)
from ruslo.broker.handlers.transactional_produce import TransactionalProduce
from ruslo.broker.metrics.api_stats import ApiStats, now_ns
from ruslo.broker.partitions.ack_wait import PendingAck
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.produce_codec import PartitionResult, decode_produce_request

if TYPE_CHECKING:
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.broker.partitions.transactional_appends import TransactionalAppends
    from ruslo.broker.partitions.whereabouts import Whereabouts
    from ruslo.model.clock import Clock
    from ruslo.net.connection import Connection


class ProduceHandler:
    def __init__(
        self,
        partitions: PartitionManager,
        transactional: TransactionalAppends,
        whereabouts: Whereabouts,
        clock: Clock,
        stats: ApiStats,
    ) -> None:
        self._partitions = partitions
        self._whereabouts = whereabouts
        self._transactional = transactional
        self._clock = clock
        self._stats = stats

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None:
        begun_ns = now_ns()
        transactional_id, acks, timeout_ms, topics = decode_produce_request(buf, pos, end, version)
        if transactional_id is not None:
            TransactionalProduce(
                self._partitions,
                self._transactional,
                self._whereabouts,
                connection,
                self._stats,
                begun_ns,
                transactional_id=transactional_id,
                acks=acks,
                timeout_ms=timeout_ms,
                version=version,
                correlation_id=correlation_id,
            ).handle(topics, memoryview(buf), self._clock.now_ms())
            return
        by_topic = self._partitions.by_id if version >= TOPIC_IDS_FROM else self._partitions.by_name
        now_ms = self._clock.now_ms()
        view = memoryview(buf)
        results: Results = []
        unacked: list[Unacked] = []
        failed = False
        for topic, asked in topics:
            known = by_topic.get(topic)
            answers: list[PartitionResult] = []
            for index, start, stop in asked:
                partition = known.get(index) if known is not None else None
                try:
                    if partition is None or acks not in (0, 1, -1) or version < ZSTD_FROM:
                        partition = check_place(
                            self._partitions, partition, topic, index, acks, version, view[start:stop]
                        )
                    if acks == ALL:
                        partition.require_min_isr()
                    appended = partition.append(view[start:stop], now_ms)
                except KafkaError as error:
                    failed = True
                    answers.append(refused(index, error, partition))
                    continue
                except StorageError as error:
                    failed = True
                    self._partitions.storage_failed(error)
                    answers.append(refused(index, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))))
                    continue
                log = partition.log
                end_offset = appended.end_offset
                if end_offset > log.high_watermark and not partition.is_acked(end_offset, acks == ALL):
                    append = PendingAck(partition, end_offset, partition.leader_epoch, acks == ALL)
                    unacked.append((len(results), len(answers), append))
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
        if failed:
            count_failures(self._stats, by_topic, results)
        if acks == 0:
            self._stats.answered(begun_ns)
            if failed:
                connection.close()
        elif unacked:
            respond_when_acked(
                connection.defer(),
                results,
                unacked,
                timeout_ms,
                version,
                correlation_id,
                self._stats,
                begun_ns,
                lambda: endpoints_of_leaders(results, self._whereabouts, connection.listener_name),
            )
        elif failed:
            endpoints = endpoints_of_leaders(results, self._whereabouts, connection.listener_name)
            connection.send(encode(results, version, correlation_id, endpoints))
            self._stats.answered(begun_ns)
        else:
            connection.send(encode(results, version, correlation_id))
            self._stats.answered(begun_ns)
