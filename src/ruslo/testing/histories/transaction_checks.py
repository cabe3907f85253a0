"""Checks of transactions: atomicity, and no reads before the decision."""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.testing.histories.anomalies import Anomaly, Finding
from ruslo.testing.histories.digest import Digest, Outcome, Transaction, Write
from ruslo.testing.histories.observations import Observations

PROOF_READS = 3
"""The maximum number of reads in a finding; more would only repeat them."""


def premature_reads(history: Digest, seen: Observations) -> Iterator[Finding]:
    """Aborted and dirty reads: one finding per transaction and anomaly, with the first read of it."""
    shown: set[tuple[str, Anomaly]] = set()
    for log in seen.committed.values():
        for read_range, read in log.ranges:
            for record in read_range.records:
                write = history.writes.get(record.element)
                if write is None:
                    continue
                transaction = write.transaction
                end_invoked = transaction.end_invoked
                if end_invoked is None or read.completed < end_invoked:
                    anomaly, how = Anomaly.DIRTY_READ, "before its end was requested"
                elif transaction.outcome is Outcome.ABORTED:
                    anomaly, how = Anomaly.ABORTED_READ, "although it was aborted"
                else:
                    continue
                if (transaction.name, anomaly) not in shown:
                    shown.add((transaction.name, anomaly))
                    yield Finding(
                        anomaly,
                        f"{record.element} of {transaction.name} was read {how} "
                        f"(outcome: {transaction.outcome})",
                        (write.invoked, *transaction.ends, read.event),
                    )


def incomplete_transactions(history: Digest, seen: Observations) -> Iterator[Finding]:
    for transaction in history.transactions.values():
        missing = missing_writes(transaction, seen)
        if not missing or transaction.outcome is Outcome.ABORTED:
            continue
        names = ", ".join(f"{write.append.element} in {write.append.tp}" for write in missing)
        invoked = tuple(write.invoked for write in missing)
        if transaction.outcome is Outcome.COMMITTED:
            yield Finding(
                Anomaly.LOST_WRITE,
                f"{transaction.name} was committed, but elements are missing: {names}",
                (*invoked, *transaction.ends),
            )
        there = visible_writes(transaction, seen)
        if there:
            reads = tuple(seen.visible[write.append.element].read.event for write in there[:PROOF_READS])
            yield Finding(
                Anomaly.TORN_TRANSACTION,
                f"consumers read {', '.join(write.append.element for write in there)} of {transaction.name}, "
                f"but never {names}",
                (*invoked, *transaction.ends, *dict.fromkeys(reads)),
            )


def visible_writes(transaction: Transaction, seen: Observations) -> list[Write]:
    return [write for write in transaction.writes if write.append.element in seen.visible]


def missing_writes(transaction: Transaction, seen: Observations) -> list[Write]:
    """Elements that are known to be missing, although a commit would have made them visible."""
    return [
        write
        for write in transaction.writes
        if not write.refused and write.append.tp in seen.proven and write.append.element not in seen.visible
    ]
