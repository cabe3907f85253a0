"""Produce v3-13: append batches, respond when they are as durable as ``acks`` asks.

v5 log start offset, v7 zstd, v8 record errors (KIP-467), v9 flexible, v10 leader hints (KIP-951), v11 and
v12 transactions (KIP-890), v13 topic ids. acks 0: no answer at all, an error closes the connection; 1: after
the append, or when ``flush.messages`` wants it, after the sync; -1: when all in-sync replicas have it.

This is the hot path: one call from frame to answer, nothing per record, no task, no thread. Where an append
fails for a reason nobody foresaw the connection breaks instead of answering UNKNOWN_SERVER_ERROR: a
producer retries the former safely, but takes the latter for "not appended".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ruslo.broker.counters.api_stats import ApiStats
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
from ruslo.broker.handlers.record_decoding import (
    Position,
    UndecodedBatch,
    Validated,
    are_uncompressed,
    is_small,
    undecoded_batches,
    validate_all,
    validate_small,
)
from ruslo.broker.handlers.transactional_produce import OUTSTANDING, TransactionalProduce
from ruslo.broker.partitions.partition import UndecodedRecords
from ruslo.broker.scheduling.worker_thread import WorkerThread
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.produce_codec import PartitionResult, TopicRecords, decode_produce_request

if TYPE_CHECKING:
    from ruslo.broker.partitions.leader_hints import BrokerEndpoints
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.broker.partitions.partition import Partition
    from ruslo.broker.partitions.transactional_appends import TransactionalAppends
    from ruslo.model.clock import Clock
    from ruslo.net.connection import Connection


_Request: TypeAlias = "tuple[Connection, Results, list[Unacked], int, int, int, int, int]"
"""Connection, results so far, appends to wait for, acks, timeout, version, correlation id, begin."""


class ProduceHandler:
    def __init__(
        self,
        partitions: PartitionManager,
        transactional: TransactionalAppends,
        endpoints: BrokerEndpoints,
        clock: Clock,
        stats: ApiStats,
    ) -> None:
        self._partitions = partitions
        self._endpoints = endpoints
        self._transactional = transactional
        self._clock = clock
        self._stats = stats
        self._thread = WorkerThread("records")
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None:
        begun_ns = self._stats.now_ns()
        transactional_id, acks, timeout_ms, topics = decode_produce_request(buf, pos, end, version)
        if transactional_id is not None:
            request = TransactionalProduce(
                self._partitions,
                self._transactional,
                self._endpoints,
                connection,
                self._stats,
                begun_ns,
                transactional_id=transactional_id,
                acks=acks,
                timeout_ms=timeout_ms,
                version=version,
                correlation_id=correlation_id,
            )
            self._handle_transactional(request, connection, topics, buf, version)
            return
        by_topic = self._partitions.by_id if version >= TOPIC_IDS_FROM else self._partitions.by_name
        now_ms = self._clock.now_ms()
        view = memoryview(buf)
        results: Results = []
        unacked: list[Unacked] = []
        undecoded: list[UndecodedBatch] = []
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
                    appended = partition.append(view[start:stop], now_ms, acks == ALL, False)
                except UndecodedRecords as records:
                    assert partition is not None
                    position = (len(results), len(answers))
                    header, rules = records.header, records.rules
                    undecoded.append(
                        UndecodedBatch(position, index, partition, view[start:stop], header, rules)
                    )
                    answers.append(OUTSTANDING)
                    continue
                except KafkaError as error:
                    failed = True
                    answers.append(refused(index, error, partition))
                    continue
                except StorageError as error:
                    failed = True
                    self._partitions.storage_failed(error)
                    answers.append(refused(index, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))))
                    continue
                if not appended.committed and not appended.is_acked(acks == ALL):
                    unacked.append((len(results), len(answers), appended))
                answers.append(
                    (
                        index,
                        0,
                        appended.base_offset,
                        appended.log_append_time_ms,
                        partition.log.start_offset,
                        None,
                        None,
                        None,
                    )
                )
            results.append((topic, answers))
        parsed = (connection, results, unacked, acks, timeout_ms, version, correlation_id, begun_ns)
        if undecoded:
            self._decode(undecoded, parsed, failed, now_ms)
        else:
            self._answer(parsed, failed)

    def _handle_transactional(
        self,
        request: TransactionalProduce,
        connection: Connection,
        topics: Sequence[TopicRecords],
        buf: bytearray,
        version: int,
    ) -> None:
        by_topic: Mapping[str | bytes, Mapping[int, Partition]]
        by_topic = self._partitions.by_id if version >= TOPIC_IDS_FROM else self._partitions.by_name
        now_ms = self._clock.now_ms()
        view = memoryview(buf)
        undecoded = undecoded_batches(by_topic, topics, view, now_ms)
        if not undecoded or (is_small(undecoded) and are_uncompressed(undecoded)):
            request.handle(topics, view, now_ms)
            return
        # What needs no decoding waits too, so that the request is handled at once and in its order.
        start, end = min(at for at, _ in _spans(topics)), max(stop for _, stop in _spans(topics))
        kept = memoryview(bytearray(view[start:end]))
        moved = [
            (topic, [(index, at - start, stop - start) for index, at, stop in asked])
            for topic, asked in topics
        ]
        undecoded = undecoded_batches(by_topic, moved, kept, now_ms)
        self._when_decoded(
            undecoded,
            connection,
            now_ms,
            lambda validated: request.handle(moved, kept, self._clock.now_ms(), validated),
        )

    def _answer(self, request: _Request, failed: bool) -> None:
        connection, results, unacked, acks, timeout_ms, version, correlation_id, begun_ns = request
        if failed:
            by_topic = self._partitions.by_id if version >= TOPIC_IDS_FROM else self._partitions.by_name
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
                acks == ALL,
                timeout_ms,
                version,
                correlation_id,
                self._stats,
                begun_ns,
                lambda: endpoints_of_leaders(results, self._endpoints, connection.listener_name),
            )
        elif failed:
            endpoints = endpoints_of_leaders(results, self._endpoints, connection.listener_name)
            connection.send(encode(results, version, correlation_id, endpoints))
            self._stats.answered(begun_ns)
        else:
            connection.send(encode(results, version, correlation_id))
            self._stats.answered(begun_ns)

    # -- batches whose records have to be decoded ------------------------------------------------------------

    def _decode(
        self, undecoded: Sequence[UndecodedBatch], request: _Request, failed: bool, now_ms: int
    ) -> None:
        """Decode and append; batches of the request that needed no decoding have been appended before."""
        validated = validate_small(undecoded, now_ms)
        if validated is not None:
            self._append_validated(undecoded, validated, request, failed)
            return
        undecoded = [each.owned() for each in undecoded]
        self._when_decoded(
            undecoded,
            request[0],
            now_ms,
            lambda validated: self._append_validated(undecoded, validated, request, failed),
        )

    def _append_validated(
        self,
        undecoded: Sequence[UndecodedBatch],
        validated: Mapping[Position, Validated],
        request: _Request,
        failed: bool,
    ) -> None:
        _, results, unacked, acks, *_ = request
        now_ms = self._clock.now_ms()
        for each in undecoded:
            partition, (topic_at, at) = each.partition, each.position
            answers = results[topic_at][1]
            accepted = validated[each.position]
            if isinstance(accepted, KafkaError):
                failed = True
                answers[at] = refused(each.index, accepted, partition)
                continue
            try:
                appended = partition.append_validated(accepted, now_ms, acks == ALL)
            except KafkaError as error:
                failed = True
                answers[at] = refused(each.index, error, partition)
                continue
            except StorageError as error:
                failed = True
                self._partitions.storage_failed(error)
                answers[at] = refused(each.index, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
                continue
            if not appended.is_acked(acks == ALL):
                unacked.append((topic_at, at, appended))
            base_offset, append_time_ms = appended.base_offset, appended.log_append_time_ms
            start_offset = partition.log.start_offset
            answers[at] = (each.index, 0, base_offset, append_time_ms, start_offset, None, None, None)
        self._answer(request, failed)

    def _when_decoded(
        self,
        undecoded: Sequence[UndecodedBatch],
        connection: Connection,
        now_ms: int,
        then: Callable[[Mapping[Position, Validated]], None],
    ) -> None:
        """Decode in a thread; ``then`` answers behind the place that is held in the connection's order."""
        held = connection.hold()

        async def decode() -> None:
            try:
                then(await self._thread.run(validate_all, undecoded, now_ms))
            except Exception:
                # What was appended is not known: the client must not take silence for anything else.
                connection.abort()
                raise
            held.send(())

        task = asyncio.get_running_loop().create_task(decode())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _spans(topics: Sequence[TopicRecords]) -> Iterator[tuple[int, int]]:
    """Where the batches of a request begin and end."""
    return ((start, stop) for _, asked in topics for _, start, stop in asked if start >= 0)
