"""Delays requests of version 1 clients that arrive before the markers of their last transaction are written.

Such a client starts its next transaction as soon as the last one is prepared. Kafka responds
CONCURRENT_TRANSACTIONS until the last marker is written, and the client retries after 20 ms or more. The
markers take a few milliseconds, so the request waits for them, for MAX_DELAY_MS at most, and is then handled
from the start.

Leaders that add partitions for version 2 clients retry by themselves. Their requests are not delayed, because
one request contains several transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from ruslo.machines.machine import Outcome, Reply
from ruslo.machines.txns.outcome import TxnOutcome
from ruslo.machines.txns.state import DelayedRequest, ShardState
from ruslo.machines.txns.states import PREPARED
from ruslo.machines.txns.timers import TimerKey, TimerKind
from ruslo.model.errors import ErrorCode, KafkaError

MAX_DELAY_MS = 100
"""As long as leaders retry for version 2 clients by default."""


class TxnProducer(NamedTuple):
    """The producer that a request names."""

    transactional_id: str
    producer_id: int
    epoch: int


def may_delay(state: ShardState, producer: TxnProducer) -> bool:
    """Whether the producer waits only for the completion of its own last transaction."""
    transaction = state.transactions.get(producer.transactional_id)
    return (
        transaction is not None
        and transaction.metadata.state in PREPARED
        and transaction.metadata.producer_id == producer.producer_id
        and transaction.epoch == producer.epoch
    )


def delay(
    state: ShardState, transactional_id: str, token: Hashable, resume: Callable[[], TxnOutcome]
) -> TxnOutcome:
    if transactional_id not in state.delayed:
        state.delayed[transactional_id] = []
        state.timers.set(TimerKey(TimerKind.DELAYED, transactional_id), state.now_ms + MAX_DELAY_MS)
    state.delayed[transactional_id].append(DelayedRequest(token, resume))
    return Outcome()


def resume(state: ShardState, transactional_id: str) -> TxnOutcome:
    """Handle the delayed requests of a transaction that is complete, in the order of their arrival."""
    outcome: TxnOutcome = Outcome()
    for request in state.delayed.pop(transactional_id, ()):
        outcome.add(request.resume())
    return outcome


def expire(state: ShardState, transactional_id: str) -> TxnOutcome:
    """Respond with the retriable error of Kafka: the markers take too long."""
    concurrent = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Outcome(
        replies=[Reply(request.token, concurrent) for request in state.delayed.pop(transactional_id, ())]
    )
