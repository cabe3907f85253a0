"""Histories of transactional clients, and a checker of Kafka's transactional guarantees."""

from __future__ import annotations

from ruslo.testing.histories.anomalies import Anomaly, Finding, Verdict
from ruslo.testing.histories.checker import check
from ruslo.testing.histories.digest import MalformedHistory
from ruslo.testing.histories.events import (
    Append,
    End,
    Event,
    FetchOffsets,
    Isolation,
    Kind,
    ListEnds,
    Poll,
    ReadRange,
    SeenRecord,
    SendOffsets,
)
from ruslo.testing.histories.files import Recorder, load, save

__all__ = [
    "Anomaly",
    "Append",
    "End",
    "Event",
    "FetchOffsets",
    "Finding",
    "Isolation",
    "Kind",
    "ListEnds",
    "MalformedHistory",
    "Poll",
    "Recorder",
    "SeenRecord",
    "SendOffsets",
    "ReadRange",
    "Verdict",
    "check",
    "load",
    "save",
]
