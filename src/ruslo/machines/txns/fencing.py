"""Who a coordinator does not listen to, and how it takes an open transaction from its producer.

A fence abort is one transition, Ongoing through PrepareEpochFence (which is never written) to PrepareAbort,
and one bump of the epoch in all: the producer is fenced at its partitions by the markers' epoch. It is
written and marked as transaction version 2 even if the producer is of version 1. The bumped epoch is given to
nobody new, so that whoever asked for the fence has to come again and gets a still newer one.
"""

from __future__ import annotations

from ruslo.machines.txns.metadata import LAST_EPOCH, NO_PRODUCER_ID
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import TV2, TxnState, is_legal
from ruslo.machines.txns.transaction import Transaction, Transition
from ruslo.model.errors import ErrorCode

KNOWS_PRODUCER_FENCED_FROM = 2
"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn before it call the same thing INVALID_PRODUCER_EPOCH."""


def fenced_code(api_version: int, known_from: int = KNOWS_PRODUCER_FENCED_FROM) -> ErrorCode:
    return ErrorCode.PRODUCER_FENCED if api_version >= known_from else ErrorCode.INVALID_PRODUCER_EPOCH


def needs_producer_id(state: ShardState, transaction: Transaction) -> bool:
    """Whether fencing uses up the last epoch, so that the next one belongs to another producer id."""
    return state.settings.fence_version >= TV2 and transaction.metadata.is_exhausted


def begin_fence_abort(
    state: ShardState, transaction: Transaction, next_producer_id: int | None
) -> Transition:
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
