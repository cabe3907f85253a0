"""EndTxn: a producer commits or aborts. What is prepared here is decided for good once it is in the log.

v2 knows PRODUCER_FENCED. v5 (KIP-890): the end of a transaction bumps the epoch, so that nothing late can
touch the next one, and the answer says which producer id and epoch to go on with. The answer leaves when the
decision is committed; until the last marker is written everything else is answered CONCURRENT_TRANSACTIONS.

Up to v4 the epoch stays, and a late EndTxn can end the next transaction. That is why there is v5.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from types import MappingProxyType

from ruslo.machines.outcome import Reply
from ruslo.machines.txns.decision import Decision, answer, refuse
from ruslo.machines.txns.events import RequestInfo
from ruslo.machines.txns.fencing import fenced_code
from ruslo.machines.txns.metadata import EXHAUSTED_FROM, LAST_EPOCH, NO_PRODUCER_ID, TxnMetadata
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import COMPLETED, IDLE, TV0, TV2, TxnState
from ruslo.machines.txns.transaction import Transaction
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse

BUMPS_EPOCH_FROM = 5


class _At(enum.Enum):
    """Where the client's epoch stands."""

    CURRENT = enum.auto()
    PREVIOUS = enum.auto()
    """One behind: a client that missed the answer to its last EndTxn, or a late copy of that."""


class _Do(enum.Enum):
    PREPARE = enum.auto()
    """End the transaction; from an idle state there is nothing to end, but the client gets its new epoch."""
    REPEAT = enum.auto()
    """It was done already: the same answer again."""
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
"""State, the client's epoch, commit or abort. Prepare* is not here: its completion is always pending."""


def handle(
    state: ShardState,
    request: EndTxnRequest,
    info: RequestInfo,
    token: Hashable,
    next_producer_id: int | None = None,
) -> Decision:
    if not request.transactional_id:
        return refuse(token, ErrorCode.INVALID_REQUEST)
    transaction = state.transactions.get(request.transactional_id)
    if transaction is None:
        return refuse(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if info.api_version >= BUMPS_EPOCH_FROM:
        return _end_v2(state, transaction, request, info, token, next_producer_id)
    return _end_v1(state, transaction, request, info, token)


def _end_v1(
    state: ShardState, transaction: Transaction, request: EndTxnRequest, info: RequestInfo, token: Hashable
) -> Decision:
    metadata = transaction.metadata
    if metadata.producer_id != request.producer_id:
        return refuse(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != request.producer_epoch:
        return refuse(token, fenced_code(info.api_version))
    if transaction.pending is not None:
        return refuse(token, ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state in COMPLETED:
        ended_so = metadata.state is _COMPLETE[request.committed]
        return answer(
            token, EndTxnResponse(error_code=ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE)
        )
    if metadata.state is not TxnState.ONGOING:
        return refuse(token, ErrorCode.INVALID_TXN_STATE)
    prepared = metadata.moved(_PREPARE[request.committed], state.wall_ms, client_version=TV0)
    transition = state.begin(transaction, prepared, last_epoch=transaction.last_epoch)
    return Decision([transition], [Reply(token, EndTxnResponse())])


def _end_v2(
    state: ShardState,
    transaction: Transaction,
    request: EndTxnRequest,
    info: RequestInfo,
    token: Hashable,
    next_producer_id: int | None,
) -> Decision:
    if transaction.pending is not None:
        return refuse(token, ErrorCode.CONCURRENT_TRANSACTIONS)
    metadata = transaction.metadata
    # The client was to go on with another producer id, because its epochs had run out, and does not know yet.
    missed_rotation = (
        request.producer_id == metadata.previous_producer_id != metadata.producer_id
        and request.producer_epoch == EXHAUSTED_FROM
        and metadata.epoch == 0
    )
    if request.producer_id != metadata.producer_id and not missed_rotation:
        return refuse(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    # Only an end of version 2 has bumped the epoch. After one of version 1 whoever comes with the epoch
    # before is a zombie, and must not be told the epoch of its successor.
    missed_answer = metadata.client_version == TV2 and request.producer_epoch == transaction.epoch - 1
    if missed_rotation or missed_answer:
        at = _At.PREVIOUS
    elif request.producer_epoch == transaction.epoch:
        at = _At.CURRENT
    else:
        return refuse(token, ErrorCode.PRODUCER_FENCED)
    match V2_TABLE[metadata.state, at, request.committed]:
        case _Do.FENCED:
            return refuse(token, ErrorCode.PRODUCER_FENCED)
        case _Do.INVALID:
            return refuse(token, ErrorCode.INVALID_TXN_STATE)
        case _Do.REPEAT:
            return answer(
                token, EndTxnResponse(producer_id=metadata.producer_id, producer_epoch=metadata.epoch)
            )
        case _Do.PREPARE:
            if not state.settings.supports(TV2):
                return refuse(token, ErrorCode.UNSUPPORTED_VERSION)
            if not metadata.is_exhausted:
                return _prepare(state, transaction, request, token, NO_PRODUCER_ID)
            if next_producer_id is not None:
                return _prepare(state, transaction, request, token, next_producer_id)
            return state.want_producer_id(
                token, lambda producer_id: handle(state, request, info, token, producer_id)
            )


def _prepare(
    state: ShardState,
    transaction: Transaction,
    request: EndTxnRequest,
    token: Hashable,
    next_producer_id: int,
) -> Decision:
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
    return Decision(
        [state.begin(transaction, prepared, last_epoch=metadata.epoch)],
        [Reply(token, EndTxnResponse(producer_id=completed.producer_id, producer_epoch=completed.epoch))],
    )


def complete(prepared: TxnMetadata, now_ms: int) -> TxnMetadata:
    """What follows a prepared end when all markers are written."""
    committed = prepared.state is TxnState.PREPARE_COMMIT
    rotates = prepared.next_producer_id != NO_PRODUCER_ID
    return prepared.moved(
        _COMPLETE[committed],
        now_ms,
        producer_id=prepared.next_producer_id if rotates else prepared.producer_id,
        epoch=0 if rotates else prepared.epoch,
        partitions=frozenset(),
    )
