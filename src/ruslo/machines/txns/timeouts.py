"""What happens by itself: open transactions are aborted when their time is up, unused ids are forgotten."""

from __future__ import annotations

from ruslo.machines.txns.decision import BYTES_PER_STEP, Decision
from ruslo.machines.txns.fencing import begin_fence_abort, needs_producer_id
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import IDLE, TxnState
from ruslo.machines.txns.timers import TimerKey, TimerKind
from ruslo.machines.txns.transaction import Transaction, Transition

IDS_PER_STEP = 500
"""A sweep must not hold up the shard."""

_EXPIRY = TimerKey(TimerKind.EXPIRY)


def watch(state: ShardState, transaction: Transaction) -> None:
    """Come back when the transaction has taken longer than its producer allowed.

    Timers are not cancelled: one that comes up and finds nothing open is done.
    """
    if transaction.metadata.state is TxnState.ONGOING:
        state.timers.set(_abort_key(transaction), _late_from_ms(state, transaction))


def watch_failed(state: ShardState, transaction: Transaction) -> None:
    """Something could not be written: the transaction's time may be up, but the log needs a rest."""
    if transaction.metadata.state is TxnState.ONGOING:
        rested_ms = state.now_ms + state.settings.abort_retry_interval_ms
        state.timers.set(_abort_key(transaction), max(_late_from_ms(state, transaction), rested_ms))


def abort_if_late(state: ShardState, transactional_id: str, next_producer_id: int | None = None) -> Decision:
    transaction = state.transactions.get(transactional_id)
    if transaction is None or transaction.pending is not None:
        # Whatever is under way sets the timer again when it is settled.
        return Decision()
    if transaction.metadata.state is not TxnState.ONGOING:
        return Decision()
    if _late_from_ms(state, transaction) > state.now_ms:
        watch(state, transaction)
        return Decision()
    if not needs_producer_id(state, transaction):
        return Decision([begin_fence_abort(state, transaction, None)])
    if next_producer_id is not None:
        return Decision([begin_fence_abort(state, transaction, next_producer_id)])
    watch_failed(state, transaction)
    return state.want_producer_id(
        None, lambda producer_id: abort_if_late(state, transactional_id, producer_id)
    )


def start_expiry(state: ShardState) -> None:
    state.timers.set(_EXPIRY, state.now_ms + state.settings.expiry_interval_ms)


def expire_ids(state: ShardState) -> Decision:
    """Ids that are idle and were last used too long ago."""
    forgotten: list[Transition] = []
    size = 0
    used_since_ms = state.wall_ms - state.settings.id_expiration_ms
    for transaction in state.transactions.values():
        if (
            transaction.pending is None
            and transaction.metadata.state in IDLE
            and transaction.metadata.last_update_ms <= used_since_ms
        ):
            end = state.begin_end(transaction)
            forgotten.append(end)
            size += end.size
            if len(forgotten) == IDS_PER_STEP or size >= BYTES_PER_STEP:
                state.timers.set(_EXPIRY, state.now_ms)
                return Decision(forgotten)
    start_expiry(state)
    return Decision(forgotten)


def _late_from_ms(state: ShardState, transaction: Transaction) -> int:
    """When the transaction will have taken longer than its timeout.

    Records have the wall clock's time, which may be set; so it is looked at once, when the transaction is
    first seen open, and whatever it says, readers are not held up for longer than the timeout from then on.
    """
    if transaction.late_from_ms is None:
        metadata = transaction.metadata
        taken_ms = max(state.wall_ms - metadata.start_ms, 0)
        transaction.late_from_ms = state.now_ms + max(metadata.timeout_ms - taken_ms + 1, 0)
    return transaction.late_from_ms


def _abort_key(transaction: Transaction) -> TimerKey:
    return TimerKey(TimerKind.ABORT, transaction.id)
