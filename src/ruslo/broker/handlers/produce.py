"""Produce v3-13: append batches, respond when they are as durable as ``acks`` requires.

v5 log start offset, v7 zstd, v8 record errors (KIP-467), v9 flexible, v10 leader hints (KIP-951), v11 and v12
transactions (KIP-890), v13 topic ids.

====  ===================================================================================
acks  the response is sent
====  ===================================================================================
0     never; an error closes the connection
1     after the append, or after the sync that ``flush.messages`` requires
-1    when all in-sync replicas have the records
====  ===================================================================================

This is the hot path: one call from frame to response, nothing per record, no task, no thread. An unexpected
exception during an append closes the connection instead of returning UNKNOWN_SERVER_ERROR: a producer retries
after the former, but takes the latter for "not appended".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ruslo.broker.counters.api_stats import ApiStats
from ruslo.broker.handlers.produce_results import (
    ALL,
    PENDING_RESULT,
    TOPIC_IDS_FROM,
    ZSTD_FROM,
    ProduceRequest,
    Results,
    Unacked,
    ack_error,
    appended_result,
    check_partition,
    count_failures,
    denied_results,
    encode,
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
from ruslo.broker.handlers.topic_access import may_write
from ruslo.broker.handlers.transactional_produce import TransactionalProduce
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.ack_wait import AckResult, AckWait
from ruslo.broker.partitions.leader_hints import broker_endpoints, leader_hint
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition, UndecodedRecords
from ruslo.broker.partitions.transactional_appends import TransactionalAppends
from ruslo.broker.requests.access import OPEN
from ruslo.broker.requests.session import ClientSession
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.broker.scheduling.worker_thread import WorkerThread
from ruslo.machines.quota import NO_METERS
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.net.connection import Connection
from ruslo.net.pending_response import PendingResponse
from ruslo.protocol.leader_hints import NodeEndpoint
from ruslo.protocol.produce_codec import PartitionResult, TopicRecords, decode_produce_request
from ruslo.records.validation import BatchRefused


@dataclass(slots=True, eq=False)
class ProduceHandler:
    partitions: PartitionManager
    appends: TransactionalAppends
    metadata: MetadataLoader
    clock: Clock
    stats: ApiStats
    _thread: WorkerThread = field(default_factory=lambda: WorkerThread("records"))
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None:
        begun_ns = self.stats.now_ns()
        transactional_id, acks, timeout_ms, topics = decode_produce_request(buf, pos, end, version)
        results: Results = []
        unacked: list[Unacked] = []
        session: ClientSession = connection.session
        request = (
            connection,
            results,
            unacked,
            acks,
            timeout_ms,
            version,
            correlation_id,
            begun_ns,
            end - pos,
        )
        access = session.access
        guarded = access is not OPEN
        if transactional_id is not None:
            if guarded and not access.allows(
                Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id, "Produce"
            ):
                self._refuse(request, topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                return
            transactional = TransactionalProduce(self, request, transactional_id)
            self._handle_transactional(transactional, connection, topics, memoryview(buf))
            return
        by_topic = self.partitions.by_id if version >= TOPIC_IDS_FROM else self.partitions.by_name
        now_ms = self.clock.now_ms()
        view = memoryview(buf)
        undecoded: list[UndecodedBatch] = []
        failed = False
        writable = access.writable
        for topic, listed in topics:
            if guarded and topic not in writable and not may_write(access, topic, self.metadata):
                failed = True
                results.append(denied_results(topic, listed))
                continue
            known = by_topic.get(topic)
            partition_results: list[PartitionResult] = []
            for index, start, stop in listed:
                partition = known.get(index) if known is not None else None
                try:
                    if partition is None or acks not in (0, 1, -1) or version < ZSTD_FROM:
                        partition = check_partition(
                            self.partitions, partition, topic, index, acks, version, view[start:stop]
                        )
                    appended = partition.append(view[start:stop], now_ms, acks == ALL, False)
                except UndecodedRecords as records:
                    assert partition is not None
                    position = (len(results), len(partition_results))
                    header, rules = records.header, records.rules
                    undecoded.append(
                        UndecodedBatch(position, index, partition, view[start:stop], header, rules)
                    )
                    partition_results.append(PENDING_RESULT)
                    continue
                except (KafkaError, StorageError) as error:
                    failed = True
                    partition_results.append(self.error_result(index, error, partition))
                    continue
                if not appended.committed and not appended.is_acked(acks == ALL):
                    unacked.append((len(results), len(partition_results), appended))
                partition_results.append(
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
            results.append((topic, partition_results))
        if undecoded:
            self._decode(undecoded, request, failed, now_ms)
        else:
            self.respond(request, failed)

    def _refuse(self, request: ProduceRequest, topics: Sequence[TopicRecords], code: ErrorCode) -> None:
        results = request[1]
        results += [denied_results(topic, listed, code) for topic, listed in topics]
        self.respond(request, failed=True)

    def _handle_transactional(
        self,
        request: TransactionalProduce,
        connection: Connection,
        topics: Sequence[TopicRecords],
        view: memoryview,
    ) -> None:
        by_topic, now_ms = request.by_topic, self.clock.now_ms()
        undecoded = undecoded_batches(by_topic, topics, view, now_ms)
        if not undecoded or (is_small(undecoded) and are_uncompressed(undecoded)):
            request.handle(topics, view, now_ms)
            return
        # Batches that need no decoding wait too, so that the request is handled at once and in order.
        start, end = min(at for at, _ in _spans(topics)), max(stop for _, stop in _spans(topics))
        copied = memoryview(bytearray(view[start:end]))
        shifted = [
            (topic, [(index, at - start, stop - start) for index, at, stop in listed])
            for topic, listed in topics
        ]
        undecoded = undecoded_batches(by_topic, shifted, copied, now_ms)
        self._when_decoded(
            undecoded,
            connection,
            now_ms,
            lambda validated: request.handle(shifted, copied, self.clock.now_ms(), validated),
        )

    def error_result(
        self, index: int, error: KafkaError | StorageError, partition: Partition | None
    ) -> PartitionResult:
        if isinstance(error, StorageError):
            self.partitions.storage_failed(error)
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        record_errors = error.record_errors if isinstance(error, BatchRefused) else None
        leader = leader_hint(partition, error.code)
        return (index, error.code, -1, -1, -1, record_errors, error.message, leader)

    def respond(self, request: ProduceRequest, failed: bool, reply: PendingResponse | None = None) -> None:
        """Respond, at once or when all appends are acknowledged; ``reply``: the deferred response."""
        connection, results, unacked, acks, _, version, correlation_id, begun_ns, size = request
        if failed:
            by_topic = self.partitions.by_id if version >= TOPIC_IDS_FROM else self.partitions.by_name
            count_failures(self.stats, by_topic, results)
        if acks == 0:
            self._throttle(connection, size, begun_ns)
            if failed:
                connection.close()
            elif reply is not None:
                reply.send(())
        elif unacked:
            self._respond_when_acked(request, reply or connection.defer())
            return
        else:
            endpoints = self._leader_endpoints(request) if failed else ()
            throttle_ms = self._throttle(connection, size, begun_ns)
            response = encode(results, version, correlation_id, endpoints, throttle_ms)
            if reply is not None:
                reply.send((response,))
            else:
                connection.send(response)
        self.stats.record_response(begun_ns)

    def _throttle(self, connection: Connection, size: int, begun_ns: int) -> int:
        """Let a client that exceeds its quota wait; returns how long."""
        session: ClientSession = connection.session
        meters = session.meters
        if meters is NO_METERS:
            return 0
        busy_ns = self.stats.now_ns() - begun_ns
        waits_ms = session.throttle_ms(meters.produce, size, busy_ns, self.clock.monotonic_ms())
        if waits_ms > 0:
            connection.mute(waits_ms)
        return waits_ms

    def _respond_when_acked(self, request: ProduceRequest, reply: PendingResponse) -> None:
        connection, results, unacked, acks, timeout_ms, version, correlation_id, begun_ns, size = request
        throttle_ms = self._throttle(connection, size, begun_ns)

        def complete(ack_results: list[AckResult]) -> None:
            for (topic_at, at, append), result in zip(unacked, ack_results, strict=True):
                error = ack_error(append.partition, acks == ALL, result)
                if error is not None:
                    partition_results = results[topic_at][1]
                    index = partition_results[at][0]
                    partition_results[at] = self.error_result(index, error, append.partition)
                    self.stats.record_error(error.code)
                    append.partition.traffic.failed_produces += 1
            self.stats.record_response(begun_ns)
            endpoints = self._leader_endpoints(request)
            reply.send((encode(results, version, correlation_id, endpoints, throttle_ms),))

        AckWait([append for _, _, append in unacked], timeout_ms, complete, acks == ALL)

    def _leader_endpoints(self, request: ProduceRequest) -> Sequence[NodeEndpoint]:
        """The endpoints of the leaders that the results name (KIP-951)."""
        connection, results, *_ = request
        leaders = {result[7][0] for _, listed in results for result in listed if result[7] is not None}
        return broker_endpoints(self.metadata, leaders, connection.listener_name) if leaders else ()

    # -- batches whose records have to be decoded ------------------------------------------------------------

    def _decode(
        self, undecoded: Sequence[UndecodedBatch], request: ProduceRequest, failed: bool, now_ms: int
    ) -> None:
        """Decode and append; the other batches of the request have been appended already."""
        validated = validate_small(undecoded, now_ms)
        if validated is not None:
            self._append_validated(undecoded, validated, request, failed)
            return
        undecoded = [each.copy() for each in undecoded]
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
        request: ProduceRequest,
        failed: bool,
    ) -> None:
        _, results, unacked, acks, *_ = request
        now_ms = self.clock.now_ms()
        for each in undecoded:
            partition, (topic_at, at) = each.partition, each.position
            partition_results = results[topic_at][1]
            accepted = validated[each.position]
            if isinstance(accepted, KafkaError):
                failed = True
                partition_results[at] = self.error_result(each.index, accepted, partition)
                continue
            try:
                appended = partition.append_validated(accepted, now_ms, acks == ALL)
            except (KafkaError, StorageError) as error:
                failed = True
                partition_results[at] = self.error_result(each.index, error, partition)
                continue
            if not appended.is_acked(acks == ALL):
                unacked.append((topic_at, at, appended))
            partition_results[at] = appended_result(each.index, appended)
        self.respond(request, failed)

    def _when_decoded(
        self,
        undecoded: Sequence[UndecodedBatch],
        connection: Connection,
        now_ms: int,
        then: Callable[[Mapping[Position, Validated]], None],
    ) -> None:
        """Decode in a thread; ``then`` responds in the connection's order, which is held meanwhile."""
        held = connection.hold()

        async def decode() -> None:
            try:
                then(await self._thread.run(validate_all, undecoded, now_ms))
            except Exception:
                # It is unknown what was appended, so the client must not get a response.
                connection.abort()
                raise
            held.send(())

        self._tasks.start(decode())


def _spans(topics: Sequence[TopicRecords]) -> Iterator[tuple[int, int]]:
    """The positions of the batches of a request."""
    return ((start, stop) for _, listed in topics for _, start, stop in listed if start >= 0)
