"""Fencing: how a coordinator aborts an ongoing transaction of a producer that is gone or replaced.

A fencing abort is one transition, Ongoing through PrepareEpochFence (which is never written) to PrepareAbort,
and one epoch bump: the epoch of the markers fences the producer in its partitions. It is written and marked
as transaction version 2 even if the producer uses version 1. No producer receives the bumped epoch, so the
producer whose InitProducerId started the abort retries and receives a newer one.
"""

from __future__ import annotations

from ruslo.machines.txns.metadata import LAST_EPOCH, NO_PRODUCER_ID
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import TV2, TxnState, is_legal
from ruslo.machines.txns.transaction import Transaction
from ruslo.model.errors import ErrorCode

PRODUCER_FENCED_MIN_VERSION = 2
"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn below this version use INVALID_PRODUCER_EPOCH instead."""


def fenced_code(api_version: int, min_version: int = PRODUCER_FENCED_MIN_VERSION) -> ErrorCode:
    return ErrorCode.PRODUCER_FENCED if api_version >= min_version else ErrorCode.INVALID_PRODUCER_EPOCH


def needs_producer_id(state: ShardState, transaction: Transaction) -> bool:
    """Whether fencing uses the last epoch, so the next transaction needs another producer id."""
    return state.settings.fence_version >= TV2 and transaction.metadata.is_exhausted


def begin_fence_abort(state: ShardState, transaction: Transaction, next_producer_id: int | None) -> TxnRecord:
    metadata = transaction.metadata
    assert is_legal(metadata.state, TxnState.PREPARE_EPOCH_FENCE, metadata.client_version)
    prepared = metadata.moved(
        TxnState.PREPARE_ABORT,
        state.wall_ms,
        epoch=min(metadata.epoch + 1, LAST_EPOCH),
        next_producer_id=NO_PRODUCER_ID if next_producer_id is None else next_producer_id,
        client_version=state.settings.fence_version,
    )
    return state.begin(transaction, prepared, last_epoch=metadata.epoch, fences=True)
