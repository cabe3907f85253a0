"""Are transactions what they promise to be? Histories of what clients saw, and a checker that judges them."""

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
    SeenRecord,
    SendOffsets,
    Span,
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
    "Span",
    "Verdict",
    "check",
    "load",
    "save",
]
