"""InitProducerId: gives a producer its id and epoch, and fences earlier producers of the transactional id.

v3: the producer may send its current id and epoch to recover from an error (KIP-360). v4 adds
PRODUCER_FENCED. v6, which is not stable: the transactions of a producer with two-phase commit do not time
out (KIP-939). Keeping a prepared transaction is not part of Apache Kafka 4.3 either.

The first matching row applies; idle is Empty, CompleteCommit or CompleteAbort:

| case                                                   | response                                    |
|--------------------------------------------------------|---------------------------------------------|
| only one of id and epoch given; transactional id ""    | INVALID_REQUEST                             |
| transactional id null                                  | a new producer id; needs no coordinator     |
| two-phase commit, which the broker does not allow      | TRANSACTIONAL_ID_AUTHORIZATION_FAILED       |
| keep the prepared transaction                          | UNSUPPORTED_VERSION                         |
| timeout not positive or too long; no two-phase commit  | INVALID_TRANSACTION_TIMEOUT                 |
| unknown transactional id                               | a new producer id, epoch 0                  |
| a transition is pending, Prepare*                      | CONCURRENT_TRANSACTIONS                     |
| given id is neither current, nor exhausted previous id | PRODUCER_FENCED                             |
| Ongoing                                                | fence abort, then CONCURRENT_TRANSACTIONS   |
| idle, epochs exhausted, none given or the current one  | a new producer id, epoch 0                  |
| idle, none given                                       | the next epoch                              |
| idle, the current epoch given                          | the next epoch; the given one is remembered |
| idle, the previous epoch given                         | the current epoch: the response was lost    |
| idle, any other epoch given                            | PRODUCER_FENCED                             |
"""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.machine import Outcome, Reply
from ruslo.machines.txns.events import RequestInfo
from ruslo.machines.txns.fencing import begin_fence_abort, fenced_code, needs_producer_id
from ruslo.machines.txns.metadata import (
    EXHAUSTED_FROM,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    NO_TIMEOUT_MS,
    TxnMetadata,
)
from ruslo.machines.txns.outcome import TxnOutcome, reject
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import PREPARED, TxnState
from ruslo.machines.txns.transaction import Transaction
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse

PRODUCER_FENCED_MIN_VERSION = 4


def check(request: InitProducerIdRequest, settings: TxnSettings) -> ErrorCode:
    """The error of a request that every coordinator would reject; any broker checks this."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if request.enable2_pc and not settings.two_phase_commit:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= settings.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def handle(
    state: ShardState,
    request: InitProducerIdRequest,
    info: RequestInfo,
    token: Hashable,
    new_producer_id: int | None = None,
) -> TxnOutcome:
    code = check(request, state.settings)
    if code is not ErrorCode.NONE:
        return reject(token, code)
    assert request.transactional_id is not None, "such requests need no coordinator"
    transaction = state.transactions.get(request.transactional_id)
    if transaction is not None:
        code = _check_transaction(transaction, request, info)
        if code is not ErrorCode.NONE:
            return reject(token, code)
    if new_producer_id is None and _needs_producer_id(state, transaction, request):
        return state.allocate_producer_id(
            token, lambda producer_id: handle(state, request, info, token, producer_id)
        )
    if transaction is not None and transaction.metadata.state is TxnState.ONGOING:
        fence = begin_fence_abort(
            state, transaction, new_producer_id if needs_producer_id(state, transaction) else None
        )
        return Outcome([fence], [Reply(token, KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))])
    if transaction is None:
        assert new_producer_id is not None
        transaction = _new_transaction(state, request.transactional_id, new_producer_id)
        return _initialize(state, transaction, request, token, new_producer_id, 0, NO_EPOCH)
    return _next_epoch(state, transaction, request, info, token, new_producer_id)


def _check_transaction(
    transaction: Transaction, request: InitProducerIdRequest, info: RequestInfo
) -> ErrorCode:
    metadata = transaction.metadata
    if transaction.pending is not None or metadata.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    given = request.producer_id
    # A producer whose epochs were exhausted may have missed the response with its next producer id.
    missed_rotation = given == metadata.previous_producer_id and request.producer_epoch >= EXHAUSTED_FROM
    if given not in (NO_PRODUCER_ID, metadata.producer_id) and not missed_rotation:
        return fenced_code(info.api_version, PRODUCER_FENCED_MIN_VERSION)
    return ErrorCode.NONE


def _needs_producer_id(
    state: ShardState, transaction: Transaction | None, request: InitProducerIdRequest
) -> bool:
    if transaction is None:
        return True
    if transaction.metadata.state is TxnState.ONGOING:
        return needs_producer_id(state, transaction)
    return _rotates(transaction.metadata, request)


def _rotates(metadata: TxnMetadata, request: InitProducerIdRequest) -> bool:
    return metadata.is_exhausted and request.producer_epoch in (NO_EPOCH, metadata.epoch)


def _new_transaction(state: ShardState, transactional_id: str, producer_id: int) -> Transaction:
    """Reserve the transactional id; it exists when its first record is committed."""
    unwritten = TxnMetadata(
        producer_id=producer_id,
        epoch=NO_EPOCH,
        state=TxnState.EMPTY,
        timeout_ms=0,
        last_update_ms=state.wall_ms,
    )
    transaction = Transaction(transactional_id, unwritten)
    state.transactions[transactional_id] = transaction
    return transaction


def _next_epoch(
    state: ShardState,
    transaction: Transaction,
    request: InitProducerIdRequest,
    info: RequestInfo,
    token: Hashable,
    new_producer_id: int | None,
) -> TxnOutcome:
    metadata, given = transaction.metadata, request.producer_epoch
    if _rotates(metadata, request):
        assert new_producer_id is not None
        return _initialize(state, transaction, request, token, new_producer_id, 0, given)
    if given in (NO_EPOCH, metadata.epoch):
        return _initialize(
            state, transaction, request, token, metadata.producer_id, metadata.epoch + 1, given
        )
    if given == transaction.last_epoch:
        return _initialize(state, transaction, request, token, metadata.producer_id, metadata.epoch, given)
    return reject(token, fenced_code(info.api_version, PRODUCER_FENCED_MIN_VERSION))


def _initialize(
    state: ShardState,
    transaction: Transaction,
    request: InitProducerIdRequest,
    token: Hashable,
    producer_id: int,
    epoch: int,
    last_epoch: int,
) -> TxnOutcome:
    empty = transaction.metadata.moved(
        TxnState.EMPTY,
        state.wall_ms,
        producer_id=producer_id,
        epoch=epoch,
        timeout_ms=NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms,
        start_ms=NO_TIME,
        partitions=frozenset(),
    )
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
    return Outcome([state.begin(transaction, empty, last_epoch=last_epoch)], [Reply(token, response)])
