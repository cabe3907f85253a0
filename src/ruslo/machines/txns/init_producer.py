"""InitProducerId: a producer introduces itself, and whoever used its transactional id before is fenced.

v3: the producer may give the id and epoch it has, to recover without losing its place (KIP-360). v4: knows
PRODUCER_FENCED. v6 (two-phase commit) is not stable and not served.

The first row that fits decides; idle is Empty, CompleteCommit, CompleteAbort:

| case                                                   | answer                                      |
|--------------------------------------------------------|---------------------------------------------|
| only one of id and epoch given; transactional id ""    | INVALID_REQUEST                             |
| transactional id null                                  | a new producer id; needs no coordinator     |
| timeout not positive or too long                       | INVALID_TRANSACTION_TIMEOUT                 |
| unknown transactional id                               | a new producer id, epoch 0                  |
| a transition is pending, Prepare*                      | CONCURRENT_TRANSACTIONS                     |
| given id neither present, nor the exhausted one before | PRODUCER_FENCED                             |
| Ongoing                                                | fence abort, then CONCURRENT_TRANSACTIONS   |
| idle, epochs exhausted, none given or the present one  | a new producer id, epoch 0                  |
| idle, none given                                       | the next epoch                              |
| idle, the present epoch given                          | the next epoch; the given one is remembered |
| idle, the epoch before the present one given           | the present epoch: the answer was lost      |
| idle, any other epoch given                            | PRODUCER_FENCED                             |
"""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.outcome import Reply
from ruslo.machines.txns.decision import Decision, refuse
from ruslo.machines.txns.events import RequestInfo
from ruslo.machines.txns.fencing import begin_fence_abort, fenced_code, needs_producer_id
from ruslo.machines.txns.metadata import (
    EXHAUSTED_FROM,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    TxnMetadata,
)
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import PREPARED, TxnState
from ruslo.machines.txns.transaction import Transaction
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse

KNOWS_PRODUCER_FENCED_FROM = 4


def check(request: InitProducerIdRequest, settings: TxnSettings) -> ErrorCode:
    """What is wrong with the request itself. Any broker can tell, before it looks for the coordinator."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None and not (
        0 < request.transaction_timeout_ms <= settings.max_timeout_ms
    ):
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def handle(
    state: ShardState,
    request: InitProducerIdRequest,
    info: RequestInfo,
    token: Hashable,
    new_producer_id: int | None = None,
) -> Decision:
    problem = check(request, state.settings)
    if problem is not ErrorCode.NONE:
        return refuse(token, problem)
    assert request.transactional_id is not None, "any broker answers these without a coordinator"
    transaction = state.transactions.get(request.transactional_id)
    if transaction is not None:
        refusal = _refusal(transaction, request, info)
        if refusal is not ErrorCode.NONE:
            return refuse(token, refusal)
    if new_producer_id is None and _needs_producer_id(state, transaction, request):
        return state.want_producer_id(
            token, lambda producer_id: handle(state, request, info, token, producer_id)
        )
    if transaction is not None and transaction.metadata.state is TxnState.ONGOING:
        fence = begin_fence_abort(
            state, transaction, new_producer_id if needs_producer_id(state, transaction) else None
        )
        return Decision([fence], [Reply(token, KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))])
    if transaction is None:
        assert new_producer_id is not None
        transaction = _newborn(state, request.transactional_id, new_producer_id)
        return _initialised(state, transaction, request, token, new_producer_id, 0, NO_EPOCH)
    return _next_epoch(state, transaction, request, info, token, new_producer_id)


def _refusal(transaction: Transaction, request: InitProducerIdRequest, info: RequestInfo) -> ErrorCode:
    metadata = transaction.metadata
    if transaction.pending is not None or metadata.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    given = request.producer_id
    # A producer whose epochs ran out may have missed the answer that gave it another id.
    came_from_before = given == metadata.previous_producer_id and request.producer_epoch >= EXHAUSTED_FROM
    if given not in (NO_PRODUCER_ID, metadata.producer_id) and not came_from_before:
        return fenced_code(info.api_version, KNOWS_PRODUCER_FENCED_FROM)
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


def _newborn(state: ShardState, transactional_id: str, producer_id: int) -> Transaction:
    """Known from now on, so that nobody else makes the same id; it exists once its first record does."""
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
) -> Decision:
    metadata, given = transaction.metadata, request.producer_epoch
    if _rotates(metadata, request):
        assert new_producer_id is not None
        return _initialised(state, transaction, request, token, new_producer_id, 0, given)
    if given in (NO_EPOCH, metadata.epoch):
        return _initialised(
            state, transaction, request, token, metadata.producer_id, metadata.epoch + 1, given
        )
    if given == transaction.last_epoch:
        return _initialised(state, transaction, request, token, metadata.producer_id, metadata.epoch, given)
    return refuse(token, fenced_code(info.api_version, KNOWS_PRODUCER_FENCED_FROM))


def _initialised(
    state: ShardState,
    transaction: Transaction,
    request: InitProducerIdRequest,
    token: Hashable,
    producer_id: int,
    epoch: int,
    last_epoch: int,
) -> Decision:
    empty = transaction.metadata.moved(
        TxnState.EMPTY,
        state.wall_ms,
        producer_id=producer_id,
        epoch=epoch,
        timeout_ms=request.transaction_timeout_ms,
        start_ms=NO_TIME,
        partitions=frozenset(),
    )
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
    return Decision([state.begin(transaction, empty, last_epoch=last_epoch)], [Reply(token, response)])
