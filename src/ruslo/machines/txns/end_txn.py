"""EndTxn: a producer commits or aborts its transaction. A committed Prepare* record is final.

v2 adds PRODUCER_FENCED. v5 (KIP-890): ending a transaction bumps the epoch, so a late request cannot affect
the next one; the response contains the producer id and epoch to continue with. The response is sent when
Prepare* is committed. Until the last marker is written, other requests fail with CONCURRENT_TRANSACTIONS.

Up to v4 the epoch stays the same, so a late EndTxn can end the next transaction.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from types import MappingProxyType

from ruslo.machines.machine import Outcome, Reply
from ruslo.machines.txns.events import RequestInfo
from ruslo.machines.txns.fencing import fenced_code
from ruslo.machines.txns.metadata import EXHAUSTED_FROM, LAST_EPOCH, NO_PRODUCER_ID, TxnMetadata
from ruslo.machines.txns.outcome import TxnOutcome, reject, respond
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import COMPLETED, IDLE, TV0, TV2, TxnState
from ruslo.machines.txns.transaction import Transaction
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse

EPOCH_BUMP_MIN_VERSION = 5


class _At(enum.Enum):
    """The client's epoch in relation to the current one."""

    CURRENT = enum.auto()
    PREVIOUS = enum.auto()
    """One behind: the client missed the response to its last EndTxn, or this is a late duplicate of it."""


class _Do(enum.Enum):
    PREPARE = enum.auto()
    """Prepare the end of the transaction; in an idle state only to bump the epoch."""
    REPEAT = enum.auto()
    """The transaction has ended so: send the same response again."""
    INVALID = enum.auto()
    """INVALID_TXN_STATE."""
    FENCED = enum.auto()
    """PRODUCER_FENCED."""


_COMMIT, _ABORT = True, False
_PREPARE = {_COMMIT: TxnState.PREPARE_COMMIT, _ABORT: TxnState.PREPARE_ABORT}
_COMPLETE = {_COMMIT: TxnState.COMPLETE_COMMIT, _ABORT: TxnState.COMPLETE_ABORT}

V2_TABLE = MappingProxyType(
    {
        (TxnState.ONGOING, _At.CURRENT, _ABORT): _Do.PREPARE,
        (TxnState.ONGOING, _At.CURRENT, _COMMIT): _Do.PREPARE,
        (TxnState.ONGOING, _At.PREVIOUS, _ABORT): _Do.FENCED,
        (TxnState.ONGOING, _At.PREVIOUS, _COMMIT): _Do.FENCED,
        (TxnState.EMPTY, _At.CURRENT, _ABORT): _Do.PREPARE,
        (TxnState.EMPTY, _At.CURRENT, _COMMIT): _Do.INVALID,
        (TxnState.EMPTY, _At.PREVIOUS, _ABORT): _Do.FENCED,
        (TxnState.EMPTY, _At.PREVIOUS, _COMMIT): _Do.FENCED,
        (TxnState.COMPLETE_ABORT, _At.CURRENT, _ABORT): _Do.PREPARE,
        (TxnState.COMPLETE_ABORT, _At.CURRENT, _COMMIT): _Do.INVALID,
        (TxnState.COMPLETE_ABORT, _At.PREVIOUS, _ABORT): _Do.REPEAT,
        (TxnState.COMPLETE_ABORT, _At.PREVIOUS, _COMMIT): _Do.INVALID,
        (TxnState.COMPLETE_COMMIT, _At.CURRENT, _ABORT): _Do.PREPARE,
        (TxnState.COMPLETE_COMMIT, _At.CURRENT, _COMMIT): _Do.INVALID,
        (TxnState.COMPLETE_COMMIT, _At.PREVIOUS, _ABORT): _Do.INVALID,
        (TxnState.COMPLETE_COMMIT, _At.PREVIOUS, _COMMIT): _Do.REPEAT,
    }
)
"""By state, the client's epoch, and commit or abort. Prepare* is absent: its completion is always pending."""


def handle(
    state: ShardState,
    request: EndTxnRequest,
    info: RequestInfo,
    token: Hashable,
    next_producer_id: int | None = None,
) -> TxnOutcome:
    if not request.transactional_id:
        return reject(token, ErrorCode.INVALID_REQUEST)
    transaction = state.transactions.get(request.transactional_id)
    if transaction is None:
        return reject(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if info.api_version >= EPOCH_BUMP_MIN_VERSION:
        return _end_v2(state, transaction, request, info, token, next_producer_id)
    return _end_v1(state, transaction, request, info, token)


def _end_v1(
    state: ShardState, transaction: Transaction, request: EndTxnRequest, info: RequestInfo, token: Hashable
) -> TxnOutcome:
    metadata = transaction.metadata
    if metadata.producer_id != request.producer_id:
        return reject(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != request.producer_epoch:
        return reject(token, fenced_code(info.api_version))
    if transaction.pending is not None:
        return reject(token, ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state in COMPLETED:
        repeated = metadata.state is _COMPLETE[request.committed]
        return respond(
            token, EndTxnResponse(error_code=ErrorCode.NONE if repeated else ErrorCode.INVALID_TXN_STATE)
        )
    if metadata.state is not TxnState.ONGOING:
        return reject(token, ErrorCode.INVALID_TXN_STATE)
    prepared = metadata.moved(_PREPARE[request.committed], state.wall_ms, client_version=TV0)
    record = state.begin(transaction, prepared, last_epoch=transaction.last_epoch)
    return Outcome([record], [Reply(token, EndTxnResponse())])


def _end_v2(
    state: ShardState,
    transaction: Transaction,
    request: EndTxnRequest,
    info: RequestInfo,
    token: Hashable,
    next_producer_id: int | None,
) -> TxnOutcome:
    if transaction.pending is not None:
        return reject(token, ErrorCode.CONCURRENT_TRANSACTIONS)
    metadata = transaction.metadata
    # Its epochs were exhausted, and the client missed the response with its next producer id.
    missed_rotation = (
        request.producer_id == metadata.previous_producer_id != metadata.producer_id
        and request.producer_epoch == EXHAUSTED_FROM
        and metadata.epoch == 0
    )
    if request.producer_id != metadata.producer_id and not missed_rotation:
        return reject(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    # Only a version 2 end bumps the epoch. After a version 1 end, a client with the previous epoch is a
    # zombie and must not learn the epoch of its successor.
    missed_response = metadata.client_version == TV2 and request.producer_epoch == transaction.epoch - 1
    if missed_rotation or missed_response:
        at = _At.PREVIOUS
    elif request.producer_epoch == transaction.epoch:
        at = _At.CURRENT
    else:
        return reject(token, ErrorCode.PRODUCER_FENCED)
    match V2_TABLE[metadata.state, at, request.committed]:
        case _Do.FENCED:
            return reject(token, ErrorCode.PRODUCER_FENCED)
        case _Do.INVALID:
            return reject(token, ErrorCode.INVALID_TXN_STATE)
        case _Do.REPEAT:
            return respond(
                token, EndTxnResponse(producer_id=metadata.producer_id, producer_epoch=metadata.epoch)
            )
        case _Do.PREPARE:
            if not state.settings.supports(TV2):
                return reject(token, ErrorCode.UNSUPPORTED_VERSION)
            if not metadata.is_exhausted:
                return _prepare(state, transaction, request, token, NO_PRODUCER_ID)
            if next_producer_id is not None:
                return _prepare(state, transaction, request, token, next_producer_id)
            return state.allocate_producer_id(
                token, lambda producer_id: handle(state, request, info, token, producer_id)
            )


def _prepare(
    state: ShardState,
    transaction: Transaction,
    request: EndTxnRequest,
    token: Hashable,
    next_producer_id: int,
) -> TxnOutcome:
    metadata = transaction.metadata
    prepared = metadata.moved(
        _PREPARE[request.committed],
        state.wall_ms,
        epoch=min(metadata.epoch + 1, LAST_EPOCH),
        start_ms=state.wall_ms if metadata.state in IDLE else metadata.start_ms,
        next_producer_id=next_producer_id,
        client_version=TV2,
    )
    completed = complete(prepared, state.wall_ms)
    return Outcome(
        [state.begin(transaction, prepared, last_epoch=metadata.epoch)],
        [Reply(token, EndTxnResponse(producer_id=completed.producer_id, producer_epoch=completed.epoch))],
    )


def complete(prepared: TxnMetadata, now_ms: int) -> TxnMetadata:
    """The state after Prepare*, when all markers are written."""
    committed = prepared.state is TxnState.PREPARE_COMMIT
    rotates = prepared.next_producer_id != NO_PRODUCER_ID
    return prepared.moved(
        _COMPLETE[committed],
        now_ms,
        producer_id=prepared.next_producer_id if rotates else prepared.producer_id,
        epoch=0 if rotates else prepared.epoch,
        partitions=frozenset(),
    )
