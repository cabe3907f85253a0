"""Batches that would begin a transaction in their partition wait here for its verification (KIP-890).

| the coordinator's code                               | the result of Produce                          |
|------------------------------------------------------|------------------------------------------------|
| NONE                                                 | appended, if its guard still stands; otherwise |
|                                                      | v12+: verify again, before: INVALID_TXN_STATE  |
| INVALID_PRODUCER_ID_MAPPING                          | the same: fatal for the client                 |
| PRODUCER_FENCED                                      | INVALID_PRODUCER_EPOCH: the client aborts      |
| TRANSACTION_ABORTABLE (never added)                  | the same from v11 on, before INVALID_TXN_STATE |
| CONCURRENT_TRANSACTIONS (the last one is not over)   | v12+: retry for a while, then the same;        |
|                                                      | before: NOT_ENOUGH_REPLICAS                    |
| loading, not available, not coordinator, unreachable | NOT_ENOUGH_REPLICAS: the client retries        |

Batches of the same producer for the same partition that arrive during a verification wait with the first one,
so they are appended in their order.

A version 2 client begins its next transaction as soon as the end of the last one is decided. The marker of
the last one may therefore reach the partition while the first batch of the next one waits, and invalidate its
guard. The batch is still valid: every version 2 transaction has its own epoch, which only its own marker
outdates. So each verification has a guard of its own, and a verification whose guard was invalidated is
repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.txn_verification import TransactionVerifier, Verification
from ruslo.config.broker import BrokerConfig
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import BASE_SEQUENCE, PRODUCER_EPOCH, PRODUCER_ID, HeaderFields
from ruslo.storage.verification_guard import VerificationGuard

logger = logging.getLogger(__name__)

ABORTABLE_FROM = 11
TRANSACTION_V2_FROM = 12

_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)

Outcome: TypeAlias = Appended | Exception
_Key: TypeAlias = tuple[Partition, int, int, VerificationGuard | None]
"""Partition, producer id, epoch, and for a version 1 client the guard. The epoch of a version 1 client does
not identify a transaction: a verification under another guard is older than the marker that invalidated that
guard."""


@dataclass(slots=True, eq=False)
class WaitingBatch:
    partition: Partition
    batch: memoryview
    """Memory of its own, not the connection's buffer."""
    header: HeaderFields
    guard: VerificationGuard
    version: int
    """The version of the Produce request."""
    done: Callable[[Outcome], None]
    """Must not raise."""
    validated: bool = False
    """Whether the records have been decoded."""

    @property
    def key(self) -> _Key:
        header = self.header
        return _key(self.partition, header[PRODUCER_ID], header[PRODUCER_EPOCH], self.guard, self.version)

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.partition.topic, self.partition.index)

    @property
    def is_overtaken(self) -> bool:
        """Whether a marker was appended since the guard was created."""
        producers, header = self.partition.log.producers, self.header
        return producers.is_overtaken(header[PRODUCER_ID], header[PRODUCER_EPOCH], self.guard)


@dataclass(slots=True, eq=False)
class TransactionalAppends:
    _verifier: TransactionVerifier
    _config: Callable[[], BrokerConfig]
    _clock: Clock
    _waiting: dict[_Key, list[WaitingBatch]] = field(default_factory=dict)
    _seen_config: BrokerConfig | None = None
    _verification_enabled: bool = True

    def append(
        self,
        transactional_id: str,
        partition: Partition,
        batch: memoryview,
        header: HeaderFields,
        version: int,
        now_ms: int,
        validated: bool = False,
    ) -> Appended | VerificationGuard:
        """Append a checked batch whose transaction is known to be open, or return the guard to wait under.

        Raises as ``Partition.append``.
        """
        guard = self.guard(partition, header, version, now_ms)
        if guard is not None:
            producer_id, epoch = header[PRODUCER_ID], header[PRODUCER_EPOCH]
            if version >= TRANSACTION_V2_FROM or (partition, producer_id, epoch, guard) in self._waiting:
                return guard
            tp = TopicPartition(partition.topic, partition.index)
            code = self._verifier.verify_locally(transactional_id, producer_id, epoch, tp)
            if code is None:
                return guard
            if code is not ErrorCode.NONE:
                raise _produce_error(code, version)
        return partition.append_transactional(
            batch,
            header,
            now_ms,
            transaction_v2=version >= TRANSACTION_V2_FROM,
            guard=guard,
            validated=validated,
        )

    def guard(
        self, partition: Partition, header: HeaderFields, version: int, now_ms: int
    ) -> VerificationGuard | None:
        """The guard under which a checked batch has to wait; None if it may be appended at once."""
        producers = partition.log.producers
        producer_id, epoch = header[PRODUCER_ID], header[PRODUCER_EPOCH]
        if self._waiting:
            current = producers.guards.get(producer_id)
            if _key(partition, producer_id, epoch, current, version) in self._waiting:
                return _new_guard(partition, header, now_ms)
        if producers.has_open_transaction(producer_id, epoch):
            return None
        if version < TRANSACTION_V2_FROM and not self._verifies():
            return None
        return _new_guard(partition, header, now_ms)

    def _verifies(self) -> bool:
        config = self._config()
        if config is not self._seen_config:
            self._seen_config = config
            self._verification_enabled = config.bool("transaction.partition.verification.enable")
        return self._verification_enabled

    def submit(self, transactional_id: str, batches: Iterable[WaitingBatch]) -> None:
        """Append each batch once its transaction is verified, or reject it. All are of one producer."""
        first: list[WaitingBatch] = []
        for batch in batches:
            waiting = self._waiting.get(batch.key)
            if waiting is None:
                self._waiting[batch.key] = [batch]
                first.append(batch)
            else:
                waiting.append(batch)
        if first:
            retry_ms = self._config().int("add.partitions.to.txn.retry.backoff.max.ms")
            self._verify(transactional_id, first, self._clock.monotonic_ms() + retry_ms)

    def _verify(self, transactional_id: str, batches: list[WaitingBatch], until_ms: int) -> None:
        header, version = batches[0].header, batches[0].version

        def complete(codes: Mapping[TopicPartition, ErrorCode]) -> None:
            retry: list[WaitingBatch] = []
            for batch in batches:
                code = codes[batch.tp]
                if version >= TRANSACTION_V2_FROM and (
                    batch.is_overtaken
                    if code is ErrorCode.NONE
                    else code is ErrorCode.CONCURRENT_TRANSACTIONS and self._clock.monotonic_ms() < until_ms
                ):
                    retry.append(batch)
                else:
                    self._complete(batch.key, code)
            if retry:
                backoff_ms = self._config().int("add.partitions.to.txn.retry.backoff.ms")
                asyncio.get_running_loop().call_later(
                    backoff_ms / 1000, self._verify_again, transactional_id, retry, until_ms
                )

        self._verifier.verify(
            Verification(
                transactional_id,
                header[PRODUCER_ID],
                header[PRODUCER_EPOCH],
                version < TRANSACTION_V2_FROM,
                frozenset(batch.tp for batch in batches),
                complete,
            )
        )

    def _verify_again(self, transactional_id: str, batches: list[WaitingBatch], until_ms: int) -> None:
        now_ms = self._clock.now_ms()
        for first in batches:
            for batch in self._waiting[first.key]:
                batch.guard = _new_guard(batch.partition, batch.header, now_ms)
        self._verify(transactional_id, batches, until_ms)

    def _complete(self, key: _Key, code: ErrorCode) -> None:
        now_ms = self._clock.now_ms()
        for batch in self._waiting.pop(key):
            batch.done(
                _append(batch, now_ms) if code is ErrorCode.NONE else _produce_error(code, batch.version)
            )


def _key(
    partition: Partition, producer_id: int, epoch: int, guard: VerificationGuard | None, version: int
) -> _Key:
    return partition, producer_id, epoch, None if version >= TRANSACTION_V2_FROM else guard


def _new_guard(partition: Partition, header: HeaderFields, now_ms: int) -> VerificationGuard:
    return partition.log.producers.guard(
        header[PRODUCER_ID], header[PRODUCER_EPOCH], header[BASE_SEQUENCE], now_ms
    )


def _append(batch: WaitingBatch, now_ms: int) -> Outcome:
    try:
        return batch.partition.append_transactional(
            batch.batch,
            batch.header,
            now_ms,
            transaction_v2=batch.version >= TRANSACTION_V2_FROM,
            guard=batch.guard,
            validated=batch.validated,
        )
    except (KafkaError, StorageError) as error:
        return error
    except Exception as error:
        logger.exception("Append of a transactional batch to %s failed", batch.tp)
        return error


def _produce_error(code: ErrorCode, version: int) -> KafkaError:
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "a newer producer has this transactional id")
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "the partition is not part of an open transaction")
    if code in _RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < TRANSACTION_V2_FROM):
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction could not be verified yet: {code.name}"
        )
    return KafkaError(code)
