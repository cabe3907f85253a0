"""Produce with a transactional id: batches that begin a transaction in their partition are verified first.

v3-11: the client has added the partition, and the leader verifies that with the coordinator. v11:
TRANSACTION_ABORTABLE. v12+: the leader adds the partition itself with the first batch (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ruslo.broker.handlers.produce_results import (
    ALL,
    PENDING_RESULT,
    TOPIC_IDS_FROM,
    ProduceRequest,
    appended_result,
    check_partition,
    denied_results,
)
from ruslo.broker.handlers.topic_access import may_write
from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.transactional_appends import Outcome, WaitingBatch
from ruslo.broker.requests.access import OPEN, Access
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.produce_codec import PartitionResult, TopicRecords
from ruslo.records.batch import ATTRIBUTES, PRODUCER_EPOCH, PRODUCER_ID, TRANSACTIONAL

if TYPE_CHECKING:
    from ruslo.broker.handlers.produce import ProduceHandler
    from ruslo.broker.handlers.record_decoding import Position, Validated
    from ruslo.broker.partitions.partition import Partition
    from ruslo.net.pending_response import PendingResponse


class TransactionalProduce:
    """One request, from its frame to its response."""

    def __init__(self, handler: ProduceHandler, request: ProduceRequest, transactional_id: str) -> None:
        self._handler = handler
        self._request = request
        self._connection, self._results, self._unacked, self._acks, _, self._version, *_ = request
        partitions = handler.partitions
        self.by_topic = partitions.by_id if self._version >= TOPIC_IDS_FROM else partitions.by_name
        self._transactional_id = transactional_id
        self._producer: tuple[int, int] | None = None
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
        access: Access = self._connection.session.access
        guarded = access is not OPEN
        for topic_at, (topic, listed) in enumerate(topics):
            if guarded and not may_write(access, topic, self._handler.metadata):
                self._failed = True
                self._results.append(denied_results(topic, listed))
                continue
            known = self.by_topic.get(topic, {})
            partition_results: list[PartitionResult] = []
            self._results.append((topic, partition_results))
            for at, (index, start, stop) in enumerate(listed):
                partition_results.append(PENDING_RESULT)
                self._outstanding += 1
                batch, partition = view[start:stop], known.get(index)
                done = partial(self._on_outcome, topic_at, at, index, partition)
                decoded = validated.get((topic_at, at)) if validated is not None else None
                try:
                    partition = check_partition(
                        self._handler.partitions, partition, topic, index, self._acks, self._version, batch
                    )
                    outcome = self._append(partition, batch, now_ms, decoded, done)
                except (KafkaError, StorageError) as error:
                    done(error)
                else:
                    if outcome is not None:
                        done(outcome)
        if self._waiting:
            self._handler.appends.submit(self._transactional_id, self._waiting)
        if self._outstanding:
            # Even with acks=0, which has no response: later requests of the connection wait behind this one.
            self._reply = self._connection.defer()
        else:
            self._handler.respond(self._request, self._failed)

    def _append(
        self,
        partition: Partition,
        batch: memoryview,
        now_ms: int,
        decoded: Validated | None,
        done: Callable[[Outcome], None],
    ) -> Outcome | None:
        """None: the batch waits for its verification, and ``done`` is called after it."""
        if isinstance(decoded, KafkaError):
            return decoded
        if self._acks == ALL:
            partition.require_min_isr()
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
        appended = self._handler.appends.append(
            self._transactional_id, partition, batch, header, self._version, now_ms, decoded is not None
        )
        if isinstance(appended, Appended):
            return appended
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
            if isinstance(outcome, KafkaError | StorageError):
                partition_results[at] = self._handler.error_result(index, outcome, partition)
            else:
                # It is unknown whether the batch was appended, so the client must not get an error.
                self._connection.abort()
        self._outstanding -= 1
        if self._outstanding == 0 and self._reply is not None:
            self._handler.respond(self._request, self._failed, self._reply)
