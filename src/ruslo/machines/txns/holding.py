"""Requests of version 1 clients that come while the partitions still hear of the end of the last transaction.

Such a client begins its next transaction as soon as the last one is decided, and Kafka answers
CONCURRENT_TRANSACTIONS until the last marker is written; clients come back after 20 ms or more. The markers
take a few: so the request waits for them, HOLD_MS at most, and is then looked at from the beginning.

Leaders that add partitions for clients of version 2 ask again by themselves. They are not held: what they ask
for other transactions would have to wait behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from ruslo.machines.outcome import Reply
from ruslo.machines.txns.decision import Decision
from ruslo.machines.txns.state import Held, ShardState
from ruslo.machines.txns.states import PREPARED
from ruslo.machines.txns.timers import TimerKey, TimerKind
from ruslo.model.errors import ErrorCode, KafkaError

HOLD_MS = 100
"""As long as leaders go on asking for clients of version 2, unless they are told otherwise."""


class Caller(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


def may_wait(state: ShardState, caller: Caller) -> bool:
    """Whether nothing but the end of its own last transaction is in the caller's way."""
    transaction = state.transactions.get(caller.transactional_id)
    return (
        transaction is not None
        and transaction.metadata.state in PREPARED
        and transaction.metadata.producer_id == caller.producer_id
        and transaction.epoch == caller.epoch
    )


def hold(
    state: ShardState, transactional_id: str, token: Hashable, resume: Callable[[], Decision]
) -> Decision:
    if transactional_id not in state.held:
        state.held[transactional_id] = []
        state.timers.set(TimerKey(TimerKind.HELD, transactional_id), state.now_ms + HOLD_MS)
    state.held[transactional_id].append(Held(token, resume))
    return Decision()


def resume(state: ShardState, transactional_id: str) -> Decision:
    """The transaction is complete: go on with what waited for it, in the order in which it came."""
    decision = Decision()
    for held in state.held.pop(transactional_id, ()):
        decision.add(held.resume())
    return decision


def give_up(state: ShardState, transactional_id: str) -> Decision:
    """It takes longer: clients know how to come again."""
    concurrent = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Decision(replies=[Reply(held.token, concurrent) for held in state.held.pop(transactional_id, ())])
