"""The checker must find mutants: bugs that are injected into the code.

Each bug existed in some system, or could. The same seeds pass without it, in ``test_transactions_chaos``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ruslo.broker.partitions.transactional_appends import TRANSACTION_V2_FROM, TransactionalAppends
from ruslo.machines.groups.offsets.store import OffsetStore
from ruslo.machines.machine import Loaded, Outcome
from ruslo.machines.txns import end_txn
from ruslo.machines.txns.outcome import TxnOutcome
from ruslo.machines.txns.shard import TxnShard
from ruslo.machines.txns.states import IDLE, PREPARED, TV0, TV2
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.storage import segment_recovery
from ruslo.storage.log import Log
from ruslo.storage.producer_state import ProducerStates, TransactionMarker
from ruslo.testing.histories import Anomaly
from tests.support.txns.txn_chaos import TxnChaos

V2_SEEDS = range(0, 180, 2)
MIXED_SEEDS = range(1, 180, 2)
"""Version 1 has fewer safeguards, so each of them matters more."""

TORN = {Anomaly.LOST_WRITE, Anomaly.TORN_TRANSACTION}
PREMATURE_READS = {Anomaly.ABORTED_READ, Anomaly.DIRTY_READ}
OFFSETS = {Anomaly.OFFSETS_OUT_OF_STEP}

Mutant = Callable[[pytest.MonkeyPatch], None]


def batches_are_not_verified(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-14402: a batch after the marker starts a transaction that no coordinator will end."""
    real = TransactionalAppends.guard

    def guard(self: TransactionalAppends, partition: Any, header: Any, version: int, now_ms: int) -> Any:
        return real(self, partition, header, version, now_ms) if version >= TRANSACTION_V2_FROM else None

    patch.setattr(TransactionalAppends, "guard", guard)


def an_end_does_not_bump_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-17754: a late EndTxn ends the next transaction."""
    real = end_txn._prepare

    def prepare(state: Any, transaction: Any, *args: Any) -> TxnOutcome:
        before = transaction.metadata
        decision = real(state, transaction, *args)
        (record,), (reply,) = decision.records, decision.replies
        assert record.metadata is not None
        assert isinstance(reply.message, EndTxnResponse)
        version = TV2 if before.state in IDLE else TV0
        unbumped = record.metadata._replace(epoch=before.epoch, client_version=version)
        reply.message.producer_epoch = before.epoch
        transaction.pending = None
        return Outcome([state.begin(transaction, unbumped, last_epoch=before.epoch)], [reply])

    patch.setattr(end_txn, "_prepare", prepare)


def a_marker_of_an_old_coordinator_counts(patch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.check_marker

    def check(self: ProducerStates, marker: TransactionMarker, transaction_version: int) -> None:
        real(self, marker._replace(coordinator_epoch=1 << 30), transaction_version)

    patch.setattr(ProducerStates, "check_marker", check)


def every_marker_counts(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-19446: a late marker ends the next transaction."""
    patch.setattr(ProducerStates, "check_marker", lambda self, marker, transaction_version: None)


def readers_do_not_wait_for_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "first_unstable_offset", lambda self, high_watermark: None)


def markers_are_lost_with_their_coordinator(patch: pytest.MonkeyPatch) -> None:
    """A decided transaction counts as complete when it is loaded."""
    real = TxnShard._load

    def load(self: TxnShard, event: Loaded) -> TxnOutcome:
        for transaction in self.state.transactions.values():
            if transaction.metadata.state in PREPARED:
                transaction.metadata = transaction.metadata._replace(partitions=frozenset())
        return real(self, event)

    patch.setattr(TxnShard, "_load", load)


def producers_are_forgotten_in_recovery(patch: pytest.MonkeyPatch) -> None:
    """As Jepsen found in Redpanda in 2022: a restart loses the state that detects duplicates."""
    patch.setattr(segment_recovery, "replay_batch", lambda producers, header, batch: None)


def aborted_transactions_are_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "aborted_transactions", lambda self, offset, upper: [])


def sequences_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.check

    def check(self: ProducerStates, header: Any, **settings: Any) -> Any:
        return real(self, header, **{**settings, "check_sequence": False})

    patch.setattr(ProducerStates, "check", check)


def offsets_do_not_wait_for_their_marker(patch: pytest.MonkeyPatch) -> None:
    def put(self: OffsetStore, producer_id: int, *args: Any) -> None:
        self.put(*args)

    patch.setattr(OffsetStore, "put_pending", put)


def aborted_offsets_are_published(patch: pytest.MonkeyPatch) -> None:
    real = OffsetStore.end_transaction

    def end_transaction(self: OffsetStore, producer_id: int, *, committed: bool) -> None:
        real(self, producer_id, committed=True)

    patch.setattr(OffsetStore, "end_transaction", end_transaction)


@pytest.mark.parametrize(
    ("mutant", "seeds", "anomalies"),
    [
        (batches_are_not_verified, MIXED_SEEDS, {Anomaly.HANGING_TRANSACTION, Anomaly.ABORTED_READ, *TORN}),
        (an_end_does_not_bump_the_epoch, V2_SEEDS, {*TORN, *PREMATURE_READS, *OFFSETS}),
        (a_marker_of_an_old_coordinator_counts, MIXED_SEEDS, {*TORN, *PREMATURE_READS}),
        (every_marker_counts, V2_SEEDS, {*TORN, *PREMATURE_READS, *OFFSETS}),
        (readers_do_not_wait_for_open_transactions, V2_SEEDS, {Anomaly.DIRTY_READ}),
        (markers_are_lost_with_their_coordinator, V2_SEEDS, {Anomaly.HANGING_TRANSACTION, *TORN, *OFFSETS}),
        (producers_are_forgotten_in_recovery, V2_SEEDS, {*PREMATURE_READS, Anomaly.DUPLICATE}),
        (aborted_transactions_are_not_listed, V2_SEEDS, {Anomaly.ABORTED_READ}),
        (sequences_are_not_checked, V2_SEEDS, {Anomaly.DUPLICATE}),
        (offsets_do_not_wait_for_their_marker, V2_SEEDS, OFFSETS),
        (aborted_offsets_are_published, V2_SEEDS, OFFSETS),
    ],
)
def test_mutant_is_found(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant, seeds: range, anomalies: set[Anomaly]
) -> None:
    mutant(monkeypatch)
    verdicts = (TxnChaos(seed).run() for seed in seeds)
    found = next(verdict for verdict in verdicts if not verdict.valid)
    assert found.anomalies.keys() & anomalies, str(found)
    assert all(finding.proof for finding in found.findings)


def test_a_finding_says_how_to_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    readers_do_not_wait_for_open_transactions(monkeypatch)
    with pytest.raises(AssertionError, match="dirty-read: ") as raised:
        TxnChaos(0).check()
    assert raised.value.__notes__ == ["replay: RUSLO_CHAOS_SEEDS=0-0"]
