"""TxnOffsetCommit: the transaction coordinator verifies the transaction, then the group coordinator commits.

| verification                        | response to TxnOffsetCommit                    |
|-------------------------------------|------------------------------------------------|
| NONE                                | that of the group coordinator; if a marker was |
|                                     | appended meanwhile, v5+ verifies again and     |
|                                     | older versions get INVALID_TXN_STATE           |
| PRODUCER_FENCED                     | INVALID_PRODUCER_EPOCH                         |
| TRANSACTION_ABORTABLE (never added) | the same; INVALID_TXN_STATE before v4          |
| the coordinator is unreachable      | COORDINATOR_LOAD_IN_PROGRESS                   |
| any other error                     | the same                                       |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.txn_verification import TransactionVerifier, Verification
from ruslo.broker.requests.context import RequestContext
from ruslo.config.broker import BrokerConfig
from ruslo.machines.groups.errors import error_response
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ruslo.records.batch import NO_SEQUENCE
from ruslo.storage.verification_guard import VerificationGuard

ABORTABLE_MIN_VERSION = 4
TRANSACTION_V2_MIN_VERSION = 5


class OffsetCommitter(Protocol):
    """The group coordinator of this broker."""

    def partition_of(self, group_id: str) -> int: ...

    def is_active(self, partition: int) -> bool: ...

    def submit(
        self, group_id: str, request: Message, context: RequestContext
    ) -> Message | asyncio.Future[Message]: ...


class LocalPartitions(Protocol):
    """The partitions of this broker."""

    @property
    def by_name(self) -> Mapping[str | Uuid, Mapping[int, Partition]]: ...


@dataclass(eq=False)
class TransactionalOffsetCommits:
    _verifier: TransactionVerifier
    _groups: OffsetCommitter
    _partitions: LocalPartitions
    _config: Callable[[], BrokerConfig]
    _clock: Clock

    def commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> Message | asyncio.Future[Message]:
        index = self._groups.partition_of(request.group_id)
        partition = self._partitions.by_name.get(GROUP_OFFSETS_TOPIC, {}).get(index)
        if partition is None or not self._groups.is_active(index):
            return self._groups.submit(request.group_id, request, context)
        producer_id, epoch = request.producer_id, request.producer_epoch
        adds = context.api_version >= TRANSACTION_V2_MIN_VERSION
        producers = partition.log.producers
        if producers.has_open_transaction(producer_id, epoch) or not (
            adds or self._config().bool("transaction.partition.verification.enable")
        ):
            return self._write(request, context, partition, None)
        promise: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._verify(request, context, partition, promise)
        return promise

    def _verify(
        self,
        request: TxnOffsetCommitRequest,
        context: RequestContext,
        partition: Partition,
        promise: asyncio.Future[Message],
    ) -> None:
        producer_id, epoch = request.producer_id, request.producer_epoch
        adds = context.api_version >= TRANSACTION_V2_MIN_VERSION
        producers = partition.log.producers
        guard = producers.guard(producer_id, epoch, NO_SEQUENCE, self._clock.now_ms())
        name = TopicPartition(GROUP_OFFSETS_TOPIC, partition.index)

        def verified(codes: Mapping[TopicPartition, ErrorCode]) -> None:
            code = codes[name]
            if code is not ErrorCode.NONE:
                code = _commit_error(code, context.api_version)
                promise.set_result(error_response(request, context.api_version, code))
                return
            if adds and producers.is_overtaken(producer_id, epoch, guard):
                # By the marker of the previous transaction. If it were the marker of this one, the
                # coordinator's epoch would be newer, and the next verification would fail.
                self._verify(request, context, partition, promise)
                return
            response = self._write(request, context, partition, guard)
            if isinstance(response, asyncio.Future):
                response.add_done_callback(partial(_copy_result, promise))
            else:
                promise.set_result(response)

        self._verifier.verify(
            Verification(request.transactional_id, producer_id, epoch, not adds, frozenset({name}), verified)
        )

    def _write(
        self,
        request: TxnOffsetCommitRequest,
        context: RequestContext,
        partition: Partition,
        guard: VerificationGuard | None,
    ) -> Message | asyncio.Future[Message]:
        # The group's shard appends a transactional batch within this call, so nothing happens in between.
        try:
            partition.log.producers.check_epoch_and_guard(request.producer_id, request.producer_epoch, guard)
        except KafkaError as error:
            return error_response(request, context.api_version, error.code)
        return self._groups.submit(request.group_id, request, context)


def _commit_error(code: ErrorCode, api_version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_MIN_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    if code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.OPERATION_NOT_ATTEMPTED):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code


def _copy_result(promise: asyncio.Future[Message], done: asyncio.Future[Message]) -> None:
    if promise.done():
        return
    if done.cancelled():
        promise.cancel()
    elif (error := done.exception()) is not None:
        promise.set_exception(error)
    else:
        promise.set_result(done.result())
