"""The health of the cluster in one sentence: its worst problem."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ruslo.client.views.partition_health import PartitionAtRisk, Risk
from ruslo.console.formats import plural
from ruslo.console.snapshot import Snapshot


class Severity(enum.StrEnum):
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


class Health(NamedTuple):
    severity: Severity
    sentence: str
    at_risk: Sequence[PartitionAtRisk] = ()
    lost_data: Sequence[str] = ()
    """One line per damaged offset range that a broker reports."""


_SENTENCES: Mapping[Risk, tuple[Severity, str]] = {
    Risk.OFFLINE: (Severity.BAD, "{} offline: no leader, so clients can neither read nor write"),
    Risk.UNDER_MIN_ISR: (
        Severity.BAD,
        "{} below min.insync.replicas: produce requests with acks=all are rejected",
    ),
    Risk.AT_MIN_ISR: (
        Severity.WARNING,
        "{} at min.insync.replicas: the loss of one more replica stops produce requests with acks=all",
    ),
    Risk.UNDER_REPLICATED: (Severity.WARNING, "{} under-replicated: a replica is not in sync"),
}


def unreachable(problem: str) -> Health:
    return Health(Severity.BAD, f"The cluster is unreachable. {problem}")


def assess_health(
    snapshot: Snapshot,
    at_risk: Sequence[PartitionAtRisk],
    fenced: Sequence[int],
    lost_data: Sequence[str] = (),
) -> Health:
    if snapshot.controller_id not in snapshot.nodes:
        return Health(
            Severity.BAD, "The cluster has no active controller: topics and leaders cannot change.", at_risk
        )
    if lost_data:
        ranges = plural(len(lost_data), "offset range")
        return Health(Severity.BAD, f"Records are lost in {ranges}.", at_risk, lost_data)
    counts = Counter(each.risk for each in at_risk)
    for risk in reversed(Risk):
        if counts[risk]:
            severity, sentence = _SENTENCES[risk]
            text = sentence.format(plural(counts[risk], "partition"))
            return Health(severity, f"{text[0].upper()}{text[1:]}.", at_risk)
    if fenced:
        names = ", ".join(str(node_id) for node_id in fenced)
        return Health(Severity.WARNING, f"Broker {names} is fenced; every partition has a leader.")
    brokers, topics = plural(len(snapshot.nodes), "broker"), plural(len(snapshot.topics), "topic")
    return Health(
        Severity.GOOD,
        f"Healthy: {brokers}, {topics}, every partition has a leader and all replicas are in sync.",
    )
