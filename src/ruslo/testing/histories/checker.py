"""Checks a history against the guarantees of Kafka's transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ruslo.testing.histories.anomalies import Verdict
from ruslo.testing.histories.digest import digest
from ruslo.testing.histories.events import Event
from ruslo.testing.histories.log_checks import (
    decreasing_ends,
    duplicates,
    hanging_transactions,
    inconsistent_reads,
    phantoms,
    reordered,
)
from ruslo.testing.histories.observations import Observations
from ruslo.testing.histories.offset_checks import offsets_out_of_step
from ruslo.testing.histories.transaction_checks import incomplete_transactions, premature_reads

_CHECKS = (
    premature_reads,
    incomplete_transactions,
    duplicates,
    reordered,
    phantoms,
    inconsistent_reads,
    decreasing_ends,
    hanging_transactions,
    offsets_out_of_step,
)


def check(history: Iterable[Event]) -> Verdict:
    """Report every anomaly that the history proves, and none that Kafka allows.

    The events may be in any order. Raises MalformedHistory for contradictory events.
    """
    events = digest(history)
    seen = Observations(events)
    written_to = {write.append.tp for write in events.writes.values()}
    return Verdict(
        findings=[finding for each in _CHECKS for finding in each(events, seen)],
        transactions=Counter(str(each.outcome) for each in events.transactions.values()),
        elements_read=len(seen.visible),
        unproven=frozenset(written_to - seen.proven),
    )
