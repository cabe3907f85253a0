"""The states of a transactional id, and which may follow which.

::

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ──┐
      ▲          │                                           │ idle again: the next transaction,
      │          └──▶ PrepareAbort ──▶ CompleteAbort ────────┤ a new producer, or the end of the id
      └──────────────────────────────────────────────────────┘

A transaction is decided when Prepare* is in the log: from then on its outcome cannot change, whoever
coordinates it. Complete* says that every partition has heard of it.
"""

from __future__ import annotations

import enum
from types import MappingProxyType


class TxnState(enum.IntEnum):
    """Numbers as in the log, names as ListTransactions gives them."""

    EMPTY = 0
    """A producer is initialised and has not begun."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id is about to be forgotten: the log gets a tombstone."""
    PREPARE_EPOCH_FENCE = 7
    """The coordinator takes the transaction from its producer in order to abort it; never in the log."""

    @property
    def display_name(self) -> str:
        return _NAMES[self]


_NAMES = MappingProxyType({state: state.name.title().replace("_", "") for state in TxnState})
STATE_BY_NAME = MappingProxyType({name: state for state, name in _NAMES.items()})

IDLE = frozenset({TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
PREPARED = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})
COMPLETED = frozenset({TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
LOGGED = IDLE | PREPARED | {TxnState.ONGOING}

LEGAL_FROM = MappingProxyType(
    {
        TxnState.EMPTY: IDLE,
        TxnState.ONGOING: IDLE | {TxnState.ONGOING},
        TxnState.PREPARE_COMMIT: frozenset({TxnState.ONGOING}),
        TxnState.PREPARE_ABORT: frozenset({TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE}),
        TxnState.COMPLETE_COMMIT: frozenset({TxnState.PREPARE_COMMIT}),
        TxnState.COMPLETE_ABORT: frozenset({TxnState.PREPARE_ABORT}),
        TxnState.DEAD: IDLE,
        TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.ONGOING}),
    }
)

LEGAL_FROM_IN_V2 = MappingProxyType({TxnState.PREPARE_ABORT: IDLE})
"""Besides those: a client of transaction version 2 aborts what the coordinator never heard of, because its
writes failed before they were added, and needs a new epoch all the same (KIP-890)."""


def is_legal(old: TxnState, new: TxnState, client_version: int) -> bool:
    if old in LEGAL_FROM[new]:
        return True
    return client_version >= TV2 and old in LEGAL_FROM_IN_V2.get(new, ())


TV0 = 0
"""Clients that keep their epoch from one transaction to the next."""
TV2 = 2
"""Clients whose epoch is bumped by every end of a transaction (KIP-890)."""
