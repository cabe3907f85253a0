"""Produce with a transactional id: batches that begin a transaction in their partition are verified first.

v3-11: the client has added the partition, and the leader verifies that with the coordinator. v11:
TRANSACTION_ABORTABLE. v12+: the leader adds the partition itself with the first batch (KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ruslo.broker.handlers.produce_results import (
    ALL,
    TOPIC_IDS_FROM,
    Results,
    Unacked,
    appended_result,
    check_partition,
    count_failures,
    encode,
    endpoints_of_leaders,
    error_result,
    respond_when_acked,
)
from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.transactional_appends import Outcome, WaitingBatch
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.produce_codec import PartitionResult, TopicRecords
from ruslo.records.batch import ATTRIBUTES, PRODUCER_EPOCH, PRODUCER_ID, TRANSACTIONAL
from ruslo.records.record_check import AcceptedBatch

if TYPE_CHECKING:
    from ruslo.broker.counters.api_stats import ApiStats
    from ruslo.broker.handlers.record_decoding import Position, Validated
    from ruslo.broker.partitions.leader_hints import BrokerEndpoints
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.broker.partitions.partition import Partition
    from ruslo.broker.partitions.transactional_appends import TransactionalAppends
    from ruslo.net.connection import Connection
    from ruslo.net.pending_response import PendingResponse
    from ruslo.protocol.leader_hints import NodeEndpoint

PENDING_RESULT: PartitionResult = (-1, ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1, None, None, None)


class TransactionalProduce:
    """One request, from its frame to its response."""

    def __init__(
        self,
        partitions: PartitionManager,
        appends: TransactionalAppends,
        endpoints: BrokerEndpoints,
        connection: Connection,
        stats: ApiStats,
        begun_ns: int,
        *,
        transactional_id: str,
        acks: int,
        timeout_ms: int,
        version: int,
        correlation_id: int,
    ) -> None:
        self._partitions = partitions
        self._appends = appends
        self._endpoints = endpoints
        self._connection = connection
        self._stats = stats
        self._begun_ns = begun_ns
        self._transactional_id = transactional_id
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._version = version
        self._correlation_id = correlation_id
        self._producer: tuple[int, int] | None = None
        self._results: Results = []
        self._unacked: list[Unacked] = []
        self._waiting: list[WaitingBatch] = []
        self._outstanding = 0
        self._failed = False
        self._reply: PendingResponse | None = None

    def handle(
        self,
        topics: Sequence[TopicRecords],
        view: memoryview,
        now_ms: int,
        validated: Mapping[Position, Validated] | None = None,
    ) -> None:
        """``validated``: batches whose records have been decoded, by their position in the request."""
        by_topic = self._partitions.by_id if self._version >= TOPIC_IDS_FROM else self._partitions.by_name
        for topic_at, (topic, listed) in enumerate(topics):
            known = by_topic.get(topic, {})
            partition_results: list[PartitionResult] = []
            self._results.append((topic, partition_results))
            for at, (index, start, stop) in enumerate(listed):
                partition_results.append(PENDING_RESULT)
                self._outstanding += 1
                batch = view[start:stop]
                try:
                    partition = check_partition(
                        self._partitions, known.get(index), topic, index, self._acks, self._version, batch
                    )
                except KafkaError as error:
                    self._on_outcome(topic_at, at, index, None, error)
                    continue
                decoded = validated.get((topic_at, at)) if validated is not None else None
                if isinstance(decoded, KafkaError):
                    self._on_outcome(topic_at, at, index, partition, decoded)
                    continue
                try:
                    if self._acks == ALL:
                        partition.require_min_isr()
                    appended = self._append(partition, batch, now_ms, topic_at, at, index, decoded)
                except (KafkaError, StorageError) as error:
                    self._on_outcome(topic_at, at, index, partition, error)
                else:
                    if appended is not None:
                        self._on_outcome(topic_at, at, index, partition, appended)
        if self._waiting:
            self._appends.submit(self._transactional_id, self._waiting)
        if self._outstanding:
            # Even with acks=0, which has no response: later requests of the connection wait behind this one.
            self._reply = self._connection.defer()
        else:
            self._finish()

    def _append(
        self,
        partition: Partition,
        batch: memoryview,
        now_ms: int,
        topic_at: int,
        at: int,
        index: int,
        decoded: AcceptedBatch | None,
    ) -> Appended | None:
        """None: the batch waits for its verification."""
        if decoded is not None:
            batch, header, _ = decoded
        else:
            header = partition.check(batch)
        if not header[ATTRIBUTES] & TRANSACTIONAL:
            if decoded is not None:
                return partition.append_validated(decoded, now_ms)
            return partition.append(batch, now_ms)
        producer = header[PRODUCER_ID], header[PRODUCER_EPOCH]
        if self._producer is None:
            self._producer = producer
        elif self._producer != producer:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "a transactional request has batches of more than one producer",
            )
        appended = self._appends.append(
            self._transactional_id, partition, batch, header, self._version, now_ms, decoded is not None
        )
        if isinstance(appended, Appended):
            return appended
        done = partial(self._on_outcome, topic_at, at, index, partition)
        copied = memoryview(bytearray(batch))
        self._waiting.append(
            WaitingBatch(partition, copied, header, appended, self._version, done, decoded is not None)
        )
        return None

    def _on_outcome(
        self, topic_at: int, at: int, index: int, partition: Partition | None, outcome: Outcome
    ) -> None:
        partition_results = self._results[topic_at][1]
        if isinstance(outcome, Appended):
            if not outcome.is_acked(self._acks == ALL):
                self._unacked.append((topic_at, at, outcome))
            partition_results[at] = appended_result(index, outcome)
        else:
            self._failed = True
            if isinstance(outcome, StorageError):
                self._partitions.storage_failed(outcome)
                outcome = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(outcome))
            if isinstance(outcome, KafkaError):
                partition_results[at] = error_result(index, outcome, partition)
            else:
                # It is unknown whether the batch was appended, so the client must not get an error.
                self._connection.abort()
        self._outstanding -= 1
        if self._outstanding == 0 and self._reply is not None:
            self._finish()

    def _finish(self) -> None:
        if self._failed:
            by_topic = self._partitions.by_id if self._version >= TOPIC_IDS_FROM else self._partitions.by_name
            count_failures(self._stats, by_topic, self._results)
        if self._acks == 0:
            self._stats.responded(self._begun_ns)
            if self._failed:
                self._connection.close()
            elif self._reply is not None:
                self._reply.send(())
        elif self._unacked:
            respond_when_acked(
                self._reply or self._connection.defer(),
                self._results,
                self._unacked,
                self._acks == ALL,
                self._timeout_ms,
                self._version,
                self._correlation_id,
                self._stats,
                self._begun_ns,
                self._leader_endpoints,
            )
        else:
            self._stats.responded(self._begun_ns)
            endpoints = self._leader_endpoints() if self._failed else ()
            response = encode(self._results, self._version, self._correlation_id, endpoints)
            if self._reply is not None:
                self._reply.send((response,))
            else:
                self._connection.send(response)

    def _leader_endpoints(self) -> Sequence[NodeEndpoint]:
        return endpoints_of_leaders(self._results, self._endpoints, self._connection.listener_name)
