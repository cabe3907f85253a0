"""How a cluster does, in one sentence: the worst that is true of it."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ruslo.client.views.partition_health import PartitionAtRisk, Risk
from ruslo.console.formats import plural
from ruslo.console.snapshot import Snapshot


class Mood(enum.StrEnum):
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


class Health(NamedTuple):
    mood: Mood
    sentence: str
    at_risk: Sequence[PartitionAtRisk] = ()
    lost_data: Sequence[str] = ()
    """The records that brokers lost, a line for each place."""


_SENTENCES: Mapping[Risk, tuple[Mood, str]] = {
    Risk.OFFLINE: (Mood.BAD, "nobody leads {}: nothing can be written to or read from there"),
    Risk.UNDER_MIN_ISR: (
        Mood.BAD,
        "{} refuse writes with acks=all: fewer replicas are in sync than min.insync.replicas asks for",
    ),
    Risk.AT_MIN_ISR: (Mood.WARNING, "{} would refuse writes with acks=all if one more replica were lost"),
    Risk.UNDER_REPLICATED: (Mood.WARNING, "{} have a replica that is not in sync"),
}


def unreachable(problem: str) -> Health:
    return Health(Mood.BAD, f"The cluster cannot be reached. {problem}")


def judge(
    snapshot: Snapshot,
    at_risk: Sequence[PartitionAtRisk],
    fenced: Sequence[int],
    lost_data: Sequence[str] = (),
) -> Health:
    if snapshot.controller_id not in snapshot.nodes:
        return Health(
            Mood.BAD, "The cluster has no controller: topics and leaders cannot change until it has.", at_risk
        )
    if lost_data:
        places = plural(len(lost_data), "place")
        return Health(Mood.BAD, f"Records are lost in {places} of the logs.", at_risk, lost_data)
    counts = Counter(each.risk for each in at_risk)
    for risk in reversed(Risk):
        if counts[risk]:
            mood, sentence = _SENTENCES[risk]
            text = sentence.format(plural(counts[risk], "partition"))
            return Health(mood, f"{text[0].upper()}{text[1:]}.", at_risk)
    if fenced:
        names = ", ".join(str(node_id) for node_id in fenced)
        return Health(Mood.WARNING, f"Broker {names} is fenced; every partition has a leader without it.")
    brokers, topics = plural(len(snapshot.nodes), "broker"), plural(len(snapshot.topics), "topic")
    return Health(
        Mood.GOOD,
        f"All is well: {brokers}, {topics}, every partition has a leader and all replicas in sync.",
    )
