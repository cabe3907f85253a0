"""The states of a transactional id and their legal transitions.

::

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ──┐
      ▲          │                                           │ idle again: the next transaction,
      │          └──▶ PrepareAbort ──▶ CompleteAbort ────────┤ a new producer, or the end of the id
      └──────────────────────────────────────────────────────┘

A committed Prepare* record is final: no later coordinator can change it. Complete* means that every partition
has its marker.
"""

from __future__ import annotations

import enum
from types import MappingProxyType


class TxnState(enum.IntEnum):
    """The numbers of the log and the names of ListTransactions."""

    EMPTY = 0
    """A producer is initialized and has not started a transaction."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id expires: its next record is a tombstone."""
    PREPARE_EPOCH_FENCE = 7
    """The coordinator fences the producer in order to abort the transaction; never in the log."""

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
"""Additional transitions of version 2: a client may abort a transaction that the coordinator does not know,
because its writes failed before their partitions were added, and still needs a new epoch (KIP-890)."""


def is_legal(old: TxnState, new: TxnState, client_version: int) -> bool:
    if old in LEGAL_FROM[new]:
        return True
    return client_version >= TV2 and old in LEGAL_FROM_IN_V2.get(new, ())


TV0 = 0
"""Clients that keep their epoch from one transaction to the next."""
TV2 = 2
"""Clients whose epoch every end of a transaction bumps (KIP-890)."""
