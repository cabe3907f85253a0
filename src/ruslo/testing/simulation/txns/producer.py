"""Transactional producers of both versions, which behave like real clients.

A producer appends to several partitions, may commit offsets of its source, and commits or aborts. It retries
retriable errors, aborts after other errors, and stops when it is fenced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from ruslo.testing.histories import Append, End, Kind
from ruslo.testing.simulation.txns.cluster import SimTxnCluster
from ruslo.testing.simulation.txns.data_path import ProduceBatch, Produced
from ruslo.testing.simulation.txns.offsets import SourceReader
from ruslo.testing.simulation.txns.process import (
    REQUEST_TIMEOUT_MS,
    History,
    MessageT,
    Script,
    SendRequest,
    SimProcess,
    Sleep,
)
from ruslo.testing.simulation.txns.versions import RETRIABLE_ERRORS, ClientVersion, add_partition

BACKOFF_MS = 60
ATTEMPTS_AND_TIMEOUTS = ((6, REQUEST_TIMEOUT_MS), (3, 600), (1, 400))
"""The number of attempts for a batch and the request timeout. Short timeouts abort more often and leave more
late requests behind."""
KEYS_PER_PARTITION = 3

_RETRIABLE_PRODUCE_ERRORS = RETRIABLE_ERRORS | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
}
_ABORT = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
    }
)


class Fenced(Exception):
    """Another producer has fenced this one, or the coordinator has."""


@dataclass(slots=True)
class _Transaction:
    name: str
    added: set[TopicPartition] = field(default_factory=set)
    unresolved: bool = False
    """Whether it is unknown if a batch is in the log."""
    failed: bool = False
    """Whether the transaction must be aborted."""


class SimProducer(SimProcess):
    def __init__(
        self,
        name: str,
        transactional_id: str,
        cluster: SimTxnCluster,
        history: History,
        version: ClientVersion,
        *,
        timeout_ms: int,
        is_stopping: Callable[[], bool],
    ) -> None:
        super().__init__(name, cluster, history)
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = -1
        self.epoch = -1
        self._timeout_ms = timeout_ms
        self._is_stopping = is_stopping
        self._sequences: defaultdict[TopicPartition, int] = defaultdict(int)
        self._source = SourceReader(self)
        self.start(self._run())

    def _run(self) -> Script[None]:
        try:
            yield from self._init()
            for number in count(1):
                yield Sleep(self.random.randint(0, 150))
                if self._is_stopping():
                    return
                yield from self._transaction(_Transaction(f"{self.name}.{number}"))
        except Fenced:
            return

    # -- its id and epoch ------------------------------------------------------------------------------------

    def _init(self) -> Script[None]:
        """Initialize the producer id; a producer that has an epoch sends it (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )
        while True:
            reply = yield from self.call_coordinator(request, 5, InitProducerIdResponse)
            code = None if reply is None else ErrorCode(reply.error_code)
            if reply is not None and code is ErrorCode.NONE:
                self._begin_epoch(reply.producer_id, reply.producer_epoch)
                return
            yield from self.back_off(code)

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self._sequences.clear()

    def call_coordinator(
        self, request: Message, version: int, response: type[MessageT]
    ) -> Script[MessageT | None]:
        return self.call_node(self.cluster.coordinator_of(self.transactional_id), request, version, response)

    def call_node(
        self, node: int, request: Message, version: int, response: type[MessageT]
    ) -> Script[MessageT | None]:
        """Send a request; on a strict connection with version 1, where late requests are harmful."""
        return self.call(node, request, version, response, strict=not self.version.is_v2)

    def back_off(self, code: ErrorCode | None) -> Script[None]:
        """Wait before the next attempt; raises an error if it must not be retried."""
        if code is not None and code not in RETRIABLE_ERRORS:
            raise Fenced
        yield Sleep(self.random.randint(1, BACKOFF_MS))

    # -- a transaction ---------------------------------------------------------------------------------------

    def _transaction(self, transaction: _Transaction) -> Script[None]:
        for number in range(self.random.randint(1, 4)):
            yield from self._append(transaction, number)
            if transaction.failed:
                break
            yield Sleep(self.random.choice((0, 10, 100, 300)))
        if not transaction.failed and self.random.random() < 0.4:
            transaction.failed = not (yield from self._source.send_offsets(transaction.name))
            transaction.added.add(TopicPartition("", 0))
        commit = not transaction.failed and self.random.random() < 0.8
        yield from self._end(transaction, commit=commit)
        if not commit:
            self._source.forget_position()
            if transaction.unresolved and not self.version.is_v2:
                # A late batch must not become part of the next transaction.
                yield from self._init()

    def _append(self, transaction: _Transaction, number: int) -> Script[None]:
        tp = self.random.choice(self.cluster.tps)
        if tp not in transaction.added and not self.version.is_v2:
            yield from add_partition(self, tp)
        transaction.added.add(tp)
        calls = [
            Append(
                transaction.name,
                tp,
                f"{tp}/{self.random.randrange(KEYS_PER_PARTITION)}",
                f"{transaction.name}.{number}.{at}",
            )
            for at in range(self.random.randint(1, 2))
        ]
        for call in calls:
            self.invoke(call)
        code = yield from self._produce(tp, calls)
        if code is ErrorCode.NONE:
            self._sequences[tp] += len(calls)
        else:
            transaction.failed = transaction.unresolved = True
        for call in calls:
            self.complete(Kind.OK if code is ErrorCode.NONE else Kind.INFO, call, code.name)

    def _produce(self, tp: TopicPartition, calls: list[Append]) -> Script[ErrorCode]:
        now_ms = self.cluster.clock.now_ms()
        batch = build_batch(
            [Record(at, now_ms, call.key.encode(), call.element.encode()) for at, call in enumerate(calls)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences[tp],
            attributes=TRANSACTIONAL,
        )
        request = ProduceBatch(self.transactional_id, tp, bytes(batch), self.version.produce)

        tries, timeout_ms = self.random.choice(ATTEMPTS_AND_TIMEOUTS)
        for _ in range(tries):
            reply: Produced | None = yield SendRequest(
                self.cluster.leaders[tp],
                lambda node, on_reply: node.produce(request, on_reply),
                timeout_ms,
                is_batch=True,
            )
            code = ErrorCode.REQUEST_TIMED_OUT if reply is None else reply.code
            if code is ErrorCode.NONE or code in _ABORT:
                return code
            if code not in _RETRIABLE_PRODUCE_ERRORS:
                raise Fenced
            yield Sleep(self.random.randint(1, BACKOFF_MS))
        return ErrorCode.REQUEST_TIMED_OUT

    def _end(self, transaction: _Transaction, *, commit: bool) -> Script[None]:
        call = End(transaction.name, commit)
        self.invoke(call)
        if not transaction.added:
            self.complete(Kind.OK, call, "nothing to end")
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        while True:
            reply = yield from self.call_coordinator(request, self.version.end, EndTxnResponse)
            code = None if reply is None else ErrorCode(reply.error_code)
            if reply is not None and code is ErrorCode.NONE:
                self.complete(Kind.OK, call)
                if self.version.is_v2:
                    self._begin_epoch(reply.producer_id, reply.producer_epoch)
                return
            if code is not None and code not in RETRIABLE_ERRORS:
                self.complete(Kind.INFO, call, code.name)
            yield from self.back_off(code)
