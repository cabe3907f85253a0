"""Transaction timeouts and the expiration of unused transactional ids."""

from __future__ import annotations

from ruslo.machines.machine import MAX_ITEMS_PER_EVENT, Outcome
from ruslo.machines.txns.fencing import begin_fence_abort, needs_producer_id
from ruslo.machines.txns.outcome import MAX_BATCH_BYTES, TxnOutcome
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import IDLE, TxnState
from ruslo.machines.txns.timers import TimerKey, TimerKind
from ruslo.machines.txns.transaction import Transaction

_EXPIRY = TimerKey(TimerKind.EXPIRY)


def start_timeout(state: ShardState, transaction: Transaction) -> None:
    """Set the timer of an ongoing transaction.

    Timers are not cancelled: one that fires and finds no ongoing transaction does nothing.
    """
    metadata = transaction.metadata
    if metadata.state is TxnState.ONGOING and metadata.times_out:
        state.timers.set(_abort_key(transaction), _deadline_ms(state, transaction))


def retry_timeout(state: ShardState, transaction: Transaction) -> None:
    """As ``start_timeout`` after a failed append: wait at least the retry interval."""
    metadata = transaction.metadata
    if metadata.state is TxnState.ONGOING and metadata.times_out:
        retry_ms = state.now_ms + state.settings.abort_retry_interval_ms
        state.timers.set(_abort_key(transaction), max(_deadline_ms(state, transaction), retry_ms))


def abort_timed_out(
    state: ShardState, transactional_id: str, next_producer_id: int | None = None
) -> TxnOutcome:
    transaction = state.transactions.get(transactional_id)
    if transaction is None or transaction.pending is not None:
        # The end of the pending transition sets the timer again.
        return Outcome()
    metadata = transaction.metadata
    if metadata.state is not TxnState.ONGOING or not metadata.times_out:
        return Outcome()
    if _deadline_ms(state, transaction) > state.now_ms:
        start_timeout(state, transaction)
        return Outcome()
    if not needs_producer_id(state, transaction):
        return Outcome([begin_fence_abort(state, transaction, None)])
    if next_producer_id is not None:
        return Outcome([begin_fence_abort(state, transaction, next_producer_id)])
    retry_timeout(state, transaction)
    return state.allocate_producer_id(
        None, lambda producer_id: abort_timed_out(state, transactional_id, producer_id)
    )


def start_expiry(state: ShardState) -> None:
    state.timers.set(_EXPIRY, state.now_ms + state.settings.expiry_interval_ms)


def expire_ids(state: ShardState) -> TxnOutcome:
    """Remove idle ids whose last use is older than ``transactional.id.expiration.ms``."""
    if not state.expiring:
        state.expiring.extend(state.transactions)
    expired: list[TxnRecord] = []
    size_bytes = 0
    used_since_ms = state.wall_ms - state.settings.id_expiration_ms
    for _ in range(MAX_ITEMS_PER_EVENT):
        if not state.expiring or size_bytes >= MAX_BATCH_BYTES:
            break
        transaction = state.transactions.get(state.expiring.popleft())
        if (
            transaction is not None
            and transaction.pending is None
            and transaction.metadata.state in IDLE
            and transaction.metadata.last_update_ms <= used_since_ms
        ):
            record = state.begin_expiry(transaction)
            expired.append(record)
            size_bytes += record.size_bytes
    if state.expiring:
        state.timers.set(_EXPIRY, state.now_ms)
    else:
        start_expiry(state)
    return Outcome(expired)


def _deadline_ms(state: ShardState, transaction: Transaction) -> int:
    """The monotonic time at which the transaction times out.

    Records carry wall-clock time, which may be changed. It is therefore read only once, when this coordinator
    first sees the transaction; whatever it says, the timeout from then on is the longest wait of readers.
    """
    if transaction.deadline_ms is None:
        metadata = transaction.metadata
        elapsed_ms = max(state.wall_ms - metadata.start_ms, 0)
        transaction.deadline_ms = state.now_ms + max(metadata.timeout_ms - elapsed_ms + 1, 0)
    return transaction.deadline_ms


def _abort_key(transaction: Transaction) -> TimerKey:
    return TimerKey(TimerKind.ABORT, transaction.id)
