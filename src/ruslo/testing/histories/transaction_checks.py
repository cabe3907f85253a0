"""What must hold of transactions: all of one or nothing of it, and nothing before it is decided."""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.testing.histories.anomalies import Anomaly, Finding
from ruslo.testing.histories.digest import Digest, Outcome, Transaction, Write
from ruslo.testing.histories.sightings import Sightings

PROOF_READS = 3
"""A finding names so many reads at most; the rest would only repeat them."""


def premature_reads(history: Digest, seen: Sightings) -> Iterator[Finding]:
    """Aborted and dirty reads: once for each transaction and anomaly, by the first reads that show it."""
    shown: set[tuple[str, Anomaly]] = set()
    for log in seen.committed.values():
        for span, read in log.stretches:
            for record in span.records:
                write = history.writes.get(record.element)
                if write is None:
                    continue
                transaction = write.transaction
                end_asked = transaction.end_asked
                if end_asked is None or read.answered < end_asked:
                    anomaly, how = Anomaly.DIRTY_READ, "before it was asked to end"
                elif transaction.outcome is Outcome.ABORTED:
                    anomaly, how = Anomaly.ABORTED_READ, "although it was aborted"
                else:
                    continue
                if (transaction.name, anomaly) not in shown:
                    shown.add((transaction.name, anomaly))
                    yield Finding(
                        anomaly,
                        f"{record.element} of {transaction.name} was read {how} ({transaction.outcome} in "
                        f"the end)",
                        (write.asked, *transaction.ends, read.event),
                    )


def incomplete_transactions(history: Digest, seen: Sightings) -> Iterator[Finding]:
    for transaction in history.transactions.values():
        missing = missing_writes(transaction, seen)
        if not missing or transaction.outcome is Outcome.ABORTED:
            continue
        names = ", ".join(f"{write.append.element} in {write.append.place}" for write in missing)
        asked = tuple(write.asked for write in missing)
        if transaction.outcome is Outcome.COMMITTED:
            yield Finding(
                Anomaly.LOST_WRITE,
                f"{transaction.name} was committed, but this is not there: {names}",
                (*asked, *transaction.ends),
            )
        there = visible_writes(transaction, seen)
        if there:
            reads = tuple(seen.visible[write.append.element].read.event for write in there[:PROOF_READS])
            yield Finding(
                Anomaly.TORN_TRANSACTION,
                f"of {transaction.name} readers saw {', '.join(write.append.element for write in there)}, "
                f"but never {names}",
                (*asked, *transaction.ends, *dict.fromkeys(reads)),
            )


def visible_writes(transaction: Transaction, seen: Sightings) -> list[Write]:
    return [write for write in transaction.writes if write.append.element in seen.visible]


def missing_writes(transaction: Transaction, seen: Sightings) -> list[Write]:
    """Elements that would be there if the transaction was committed, and are known not to be."""
    return [
        write
        for write in transaction.writes
        if not write.refused
        and write.append.place in seen.proven
        and write.append.element not in seen.visible
    ]
