"""Reads the status of pipelines, also of older versions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ruslo.runs.folder import RunFolder
from ruslo.runs.register import known_runs


@dataclass(frozen=True, slots=True)
class QueryReport:
    sink: str = ""
    state: str = ""
    phase: str = ""
    restarts: int = 0
    error: str | None = None
    batches: int = 0
    records_in: int = 0
    records_out: int = 0
    in_per_second: float = 0.0
    out_per_second: float = 0.0
    lag_records: int | None = None
    """None if a source does not report its latest offsets."""
    batch_ms: int = 0
    last_batch_at: str | None = None
    topics: tuple[str, ...] = ()
    """The topics that the query writes to, if the file names them."""


@dataclass(frozen=True, slots=True)
class RunReport:
    folder: Path
    pipeline: str
    state: str
    running: bool
    file: str = ""
    bootstrap: str | None = None
    dead_letter_topic: str | None = None
    dead_letters: int | None = None
    """Dead letters since the run began; None without a dead-letter topic or before the first count."""
    started_at: float | None = None
    updated_at: float | None = None
    host: str | None = None
    queries: tuple[QueryReport, ...] = ()
    source_topics: tuple[str, ...] = ()
    group: str | None = None
    """The consumer group that publishes the pipeline's progress, if any."""

    @property
    def records_in_per_second(self) -> float:
        return sum(query.in_per_second for query in self.queries)

    @property
    def lag_records(self) -> int | None:
        known = [query.lag_records for query in self.queries if query.lag_records is not None]
        return sum(known) if known else None


def known_reports() -> list[RunReport]:
    """The reports of all pipelines that ran on this machine, running ones first."""
    found = [report for folder in known_runs() if (report := read_report(folder)) is not None]
    return sorted(found, key=lambda report: (not report.running, -(report.updated_at or 0)))


def read_report(folder: Path) -> RunReport | None:
    """None if the status does not exist or cannot be read."""
    try:
        last = RunFolder(folder).report()
        if last is None:
            return None
        fields = {"pipeline": folder.parent.name, **last, "folder": folder}
        return msgspec.convert(fields, RunReport, strict=False)
    except (OSError, ValueError, msgspec.ValidationError):
        return None
