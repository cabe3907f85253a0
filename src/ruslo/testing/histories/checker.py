"""Judges a history: is it one that Kafka's transactions promise?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ruslo.testing.histories.anomalies import Verdict
from ruslo.testing.histories.digest import digest
from ruslo.testing.histories.events import Event
from ruslo.testing.histories.log_checks import (
    duplicates,
    ends_that_went_back,
    hanging_transactions,
    inconsistent_reads,
    phantoms,
    reordered,
)
from ruslo.testing.histories.offset_checks import offsets_out_of_step
from ruslo.testing.histories.sightings import Sightings
from ruslo.testing.histories.transaction_checks import incomplete_transactions, premature_reads

_CHECKS = (
    premature_reads,
    incomplete_transactions,
    duplicates,
    reordered,
    phantoms,
    inconsistent_reads,
    ends_that_went_back,
    hanging_transactions,
    offsets_out_of_step,
)


def check(history: Iterable[Event]) -> Verdict:
    """Every anomaly that the history proves, and none that Kafka allows.

    The events may come in any order. Raises MalformedHistory for what cannot be a history at all.
    """
    events = digest(history)
    seen = Sightings(events)
    written_to = {write.append.place for write in events.writes.values()}
    return Verdict(
        findings=[finding for each in _CHECKS for finding in each(events, seen)],
        transactions=Counter(str(each.outcome) for each in events.transactions.values()),
        elements_read=len(seen.visible),
        unproven=frozenset(written_to - seen.proven),
    )
