"""Batches that would begin a transaction in their partition wait here for its coordinator's word (KIP-890).

| the coordinator says                                 | Produce answers                                |
|------------------------------------------------------|------------------------------------------------|
| NONE                                                 | appended, if its guard still stands; else      |
|                                                      | v12+: asked again, before: INVALID_TXN_STATE   |
| INVALID_PRODUCER_ID_MAPPING                          | the same: fatal for the client                 |
| PRODUCER_FENCED                                      | INVALID_PRODUCER_EPOCH: the client aborts      |
| TRANSACTION_ABORTABLE (never added)                  | the same from v11 on, before INVALID_TXN_STATE |
| CONCURRENT_TRANSACTIONS (the last one is not over)   | v12+: asked again for a while, then the same;  |
|                                                      | before: NOT_ENOUGH_REPLICAS                    |
| loading, not available, not coordinator, not reached | NOT_ENOUGH_REPLICAS: the client tries again    |

Batches of one producer for one partition that come while the first still waits wait with it, so that they are
appended in the order in which they came.

A version 2 client begins its next transaction as soon as the end of the last one is decided, so that the last
one's marker may reach the partition while the first batch of the next one waits there, and takes its guard
away. That is no reason to refuse it: every transaction has an epoch of its own there, which no marker but its
own outdates. So each question is asked under a guard of its own, and a word that lost its guard is asked for
once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.txn_verification import CoordinatorAsks, TransactionAsk
from ruslo.config.broker import BrokerConfig
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import HeaderFields
from ruslo.storage.verification_guard import VerificationGuard

logger = logging.getLogger(__name__)

ABORTABLE_FROM = 11
TRANSACTION_V2_FROM = 12

_TRY_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)

Outcome: TypeAlias = Appended | Exception
_Place: TypeAlias = tuple[Partition, int, int, VerificationGuard | None]
"""Partition, producer id, epoch, and for a version 1 client, whose epoch names no transaction, the guard: a
word of the coordinator that was asked for under another guard is older than the marker which took that one
away, and says nothing of this one."""


@dataclass(slots=True, eq=False)
class WaitingBatch:
    partition: Partition
    batch: memoryview
    """Its own memory, not the connection's."""
    header: HeaderFields
    guard: VerificationGuard
    version: int
    """Of the Produce request."""
    done: Callable[[Outcome], None]
    """Must not raise."""
    validated: bool = False
    """Whether the records have been decoded."""

    @property
    def place(self) -> _Place:
        return _place(self.partition, self.header[9], self.header[10], self.guard, self.version)

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.partition.topic, self.partition.index)

    @property
    def overtaken(self) -> bool:
        """Whether a marker has come since the guard was made."""
        return self.partition.log.producers.is_overtaken(self.header[9], self.header[10], self.guard)

    def renew_guard(self, now_ms: int) -> None:
        self.guard = self.partition.log.producers.guard(
            self.header[9], self.header[10], self.header[11], now_ms
        )


class TransactionalAppends:
    def __init__(self, asks: CoordinatorAsks, config: Callable[[], BrokerConfig], clock: Clock) -> None:
        self._asks = asks
        self._config = config
        self._clock = clock
        self._waiting: dict[_Place, list[WaitingBatch]] = {}
        self._seen_config: BrokerConfig | None = None
        self._verification_enabled = True

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
        """Append a checked batch whose transaction is known to be open, or say under what it has to wait.

        Raises as ``Partition.append``.
        """
        guard = self.guard(partition, header, version, now_ms)
        if guard is not None:
            producer_id, epoch = header[9], header[10]
            if version >= TRANSACTION_V2_FROM or (partition, producer_id, epoch, guard) in self._waiting:
                return guard
            place = TopicPartition(partition.topic, partition.index)
            code = self._asks.verify_here(transactional_id, producer_id, epoch, place)
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
        """What a checked batch has to wait under; None if it may be appended at once."""
        producer_id, epoch, sequence = header[9], header[10], header[11]
        if self._waiting:
            standing = partition.log.producers.guards.get(producer_id)
            if _place(partition, producer_id, epoch, standing, version) in self._waiting:
                return partition.log.producers.guard(producer_id, epoch, sequence, now_ms)
        if partition.log.producers.has_open_transaction(producer_id, epoch):
            return None
        if version < TRANSACTION_V2_FROM and not self._verifies():
            return None
        return partition.log.producers.guard(producer_id, epoch, sequence, now_ms)

    def _verifies(self) -> bool:
        config = self._config()
        if config is not self._seen_config:
            self._seen_config = config
            self._verification_enabled = config.bool("transaction.partition.verification.enable")
        return self._verification_enabled

    def submit(self, transactional_id: str, batches: Iterable[WaitingBatch]) -> None:
        """Append each when its transaction is known to be open, or refuse it. All are of one producer."""
        asking: list[WaitingBatch] = []
        for batch in batches:
            waiting = self._waiting.get(batch.place)
            if waiting is None:
                self._waiting[batch.place] = [batch]
                asking.append(batch)
            else:
                waiting.append(batch)
        if asking:
            retry_ms = self._config().int("add.partitions.to.txn.retry.backoff.max.ms")
            self._ask(transactional_id, asking, self._clock.monotonic_ms() + retry_ms)

    def _ask(self, transactional_id: str, asking: list[WaitingBatch], until_ms: int) -> None:
        header, version = asking[0].header, asking[0].version

        def answered(codes: Mapping[TopicPartition, ErrorCode]) -> None:
            again: list[WaitingBatch] = []
            for batch in asking:
                code = codes[batch.name]
                if version >= TRANSACTION_V2_FROM and (
                    batch.overtaken
                    if code is ErrorCode.NONE
                    else code is ErrorCode.CONCURRENT_TRANSACTIONS and self._clock.monotonic_ms() < until_ms
                ):
                    again.append(batch)
                else:
                    self._settle(batch.place, code)
            if again:
                backoff_ms = self._config().int("add.partitions.to.txn.retry.backoff.ms")
                asyncio.get_running_loop().call_later(
                    backoff_ms / 1000, self._ask_again, transactional_id, again, until_ms
                )

        self._asks.ask(
            TransactionAsk(
                transactional_id,
                header[9],
                header[10],
                version < TRANSACTION_V2_FROM,
                frozenset(batch.name for batch in asking),
                answered,
            )
        )

    def _ask_again(self, transactional_id: str, asking: list[WaitingBatch], until_ms: int) -> None:
        now_ms = self._clock.now_ms()
        for first in asking:
            for batch in self._waiting[first.place]:
                batch.renew_guard(now_ms)
        self._ask(transactional_id, asking, until_ms)

    def _settle(self, place: _Place, code: ErrorCode) -> None:
        now_ms = self._clock.now_ms()
        for batch in self._waiting.pop(place):
            batch.done(
                _append(batch, now_ms) if code is ErrorCode.NONE else _produce_error(code, batch.version)
            )


def _place(
    partition: Partition, producer_id: int, epoch: int, guard: VerificationGuard | None, version: int
) -> _Place:
    return partition, producer_id, epoch, None if version >= TRANSACTION_V2_FROM else guard


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
        logger.exception("%s: a transactional batch could not be appended", batch.name)
        return error


def _produce_error(code: ErrorCode, version: int) -> KafkaError:
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "a newer producer has this transactional id")
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "the partition is not part of an open transaction")
    if code in _TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < TRANSACTION_V2_FROM):
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction could not be verified yet: {code.name}"
        )
    return KafkaError(code)
