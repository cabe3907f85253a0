"""Transaction states: the legal transitions."""

from __future__ import annotations

import pytest

from ruslo.machines.txns.states import LEGAL_FROM, STATE_BY_NAME, TV0, TV2, TxnState, is_legal

# The states, by their number in the log, from which each state can be reached.
LEGAL = {
    0: {0, 4, 5},
    1: {0, 1, 4, 5},
    2: {1},
    3: {1, 7},
    4: {2},
    5: {3},
    6: {0, 4, 5},
    7: {1},
}


def test_every_state_has_a_row() -> None:
    assert set(LEGAL_FROM) == set(TxnState)


@pytest.mark.parametrize("new", TxnState)
def test_transitions_of_version_1(new: TxnState) -> None:
    assert {int(old) for old in TxnState if is_legal(old, new, TV0)} == LEGAL[new]


@pytest.mark.parametrize("new", TxnState)
def test_version_2_may_also_abort_an_empty_transaction(new: TxnState) -> None:
    more = {0, 4, 5} if new is TxnState.PREPARE_ABORT else set()
    assert {int(old) for old in TxnState if is_legal(old, new, TV2)} == LEGAL[new] | more


def test_names_are_those_of_list_filters() -> None:
    assert list(STATE_BY_NAME) == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert STATE_BY_NAME["CompleteAbort"] is TxnState.COMPLETE_ABORT
