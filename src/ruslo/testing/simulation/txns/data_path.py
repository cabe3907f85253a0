"""Produce, Fetch and ListOffsets of a node, like the broker's handlers but without codecs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ruslo.broker.coordinators.txns.markers import LocalPartitions
from ruslo.broker.partitions.ack_wait import AckResult, Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.transactional_appends import Outcome, TransactionalAppends, WaitingBatch
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.storage.txn_index import AbortedTransaction
from ruslo.testing.histories import Isolation
from ruslo.testing.simulation.connection import OnReply

PRODUCE_TIMEOUT_MS = 4_000


@dataclass(frozen=True, slots=True)
class ProduceBatch:
    """Produce with acks=all, for one partition."""

    transactional_id: str
    tp: TopicPartition
    batch: bytes
    version: int


class Produced(NamedTuple):
    code: ErrorCode
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class FetchBytes:
    tp: TopicPartition
    offset: int
    isolation: Isolation
    max_bytes: int


class Fetched(NamedTuple):
    code: ErrorCode
    data: bytes = b""
    aborted: tuple[AbortedTransaction, ...] = ()
    """The aborted transactions within the data, for read_committed."""


@dataclass(frozen=True, slots=True)
class FetchEnd:
    """ListOffsets, latest."""

    tp: TopicPartition
    isolation: Isolation


class FetchedEnd(NamedTuple):
    code: ErrorCode
    offset: int = -1


class DataPath:
    def __init__(self, partitions: LocalPartitions, appends: TransactionalAppends, clock: Clock) -> None:
        self._partitions = partitions
        self._appends = appends
        self._clock = clock

    def produce(self, request: ProduceBatch, on_reply: OnReply[Produced]) -> None:
        """Append a batch like ``handlers.transactional_produce``."""
        batch, now_ms, version = memoryview(bytearray(request.batch)), self._clock.now_ms(), request.version
        try:
            partition = self._partitions.get(*request.tp)
            header = partition.check(batch)
            done = partial(self._produced, partition, on_reply)
            appended = self._appends.append(
                request.transactional_id, partition, batch, header, version, now_ms
            )
            if isinstance(appended, Appended):
                done(appended)
            else:
                self._appends.submit(
                    request.transactional_id,
                    [WaitingBatch(partition, batch, header, appended, version, done)],
                )
        except KafkaError as error:
            on_reply(Produced(error.code))

    def _produced(self, partition: Partition, on_reply: OnReply[Produced], outcome: Outcome) -> None:
        if isinstance(outcome, KafkaError):
            on_reply(Produced(outcome.code))
            return
        if not isinstance(outcome, Appended):
            raise outcome
        appended = outcome

        def complete(result: AckResult) -> None:
            on_reply(Produced(result.value, appended.base_offset))

        appended.when_committed(PRODUCE_TIMEOUT_MS, complete)

    def fetch(self, request: FetchBytes, on_reply: OnReply[Fetched]) -> None:
        """Read a range like ``handlers.fetch``."""
        committed_only = request.isolation is Isolation.READ_COMMITTED
        try:
            partition = self._partitions.get(*request.tp)
            read = partition.read(request.offset, request.max_bytes, committed_only, True)
        except KafkaError as error:
            on_reply(Fetched(error.code))
            return
        if read.slice is None:
            on_reply(Fetched(ErrorCode.NONE))
            return
        log = partition.log
        aborted = log.aborted_transactions(request.offset, log.end_of_read(read)) if committed_only else ()
        on_reply(Fetched(ErrorCode.NONE, read.slice.read(), tuple(aborted)))

    def fetch_end(self, request: FetchEnd, on_reply: OnReply[FetchedEnd]) -> None:
        """Return the latest offset like ``handlers.list_offsets``."""
        try:
            partition = self._partitions.get(*request.tp)
            partition.require_end_offset()
        except KafkaError as error:
            on_reply(FetchedEnd(error.code))
            return
        log = partition.log
        committed_only = request.isolation is Isolation.READ_COMMITTED
        end = log.last_stable_offset if committed_only else log.high_watermark
        on_reply(FetchedEnd(ErrorCode.NONE, end))
