"""Many simulations of transactions under faults; ``RUSLO_CHAOS_SEEDS=5000`` for more, ``=17-17`` for one."""

from __future__ import annotations

import pytest

from tests.support.machines.seeds import chaos_seeds
from tests.support.txns.txn_chaos import TxnChaos


@pytest.mark.parametrize("seed", chaos_seeds(179))
def test_no_anomaly_under_faults(seed: int) -> None:
    TxnChaos(seed).check()


def test_a_seed_gives_the_same_history_every_time() -> None:
    runs = [TxnChaos(7), TxnChaos(7)]
    for chaos in runs:
        chaos.run()
    assert runs[0].history.events == runs[1].history.events


def test_the_clients_make_progress() -> None:
    """Clients without progress would prove nothing."""
    done = [TxnChaos(seed).run() for seed in range(10)]
    transactions = sum((verdict.transactions for verdict in done), done[0].transactions.copy())
    assert min(transactions["committed"], transactions["aborted"]) > 30
    assert all(verdict.elements_read > 0 and not verdict.unproven for verdict in done)
