"""Reads the status of pipelines, also of older versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruslo.runs.folder import RunFolder
from ruslo.runs.register import known_runs


@dataclass(frozen=True, slots=True)
class QueryReport:
    sink: str
    state: str
    phase: str
    restarts: int
    error: str | None
    batches: int
    records_in: int
    records_out: int
    in_per_second: float
    out_per_second: float
    lag_records: int | None
    """None if a source does not report its latest offsets."""
    batch_ms: int
    last_batch_at: str | None
    topics: tuple[str, ...] = ()
    """The topics that the query writes to, if the file names them."""


@dataclass(frozen=True, slots=True)
class RunReport:
    folder: Path
    pipeline: str
    file: str
    state: str
    running: bool
    bootstrap: str | None
    dead_letter_topic: str | None
    dead_letters: int | None
    """Dead letters since the run began; None without a dead-letter topic or before the first count."""
    started_at: float | None
    updated_at: float | None
    host: str | None
    queries: tuple[QueryReport, ...]
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
    except (OSError, ValueError):
        return None
    return None if last is None else _report(folder, last)


def _report(folder: Path, last: Mapping[str, Any]) -> RunReport:
    return RunReport(
        folder=folder,
        pipeline=str(last.get("pipeline", folder.parent.name)),
        file=str(last.get("file", "")),
        state=str(last["state"]),
        running=bool(last["running"]),
        bootstrap=last.get("bootstrap"),
        dead_letter_topic=last.get("dead_letter_topic"),
        dead_letters=last.get("dead_letters"),
        started_at=last.get("started_at"),
        updated_at=last.get("updated_at"),
        host=last.get("host"),
        queries=tuple(_query(query) for query in last.get("queries", ())),
        source_topics=tuple(last.get("source_topics", ())),
        group=last.get("group"),
    )


def _query(query: Mapping[str, Any]) -> QueryReport:
    return QueryReport(
        sink=str(query.get("sink", "")),
        state=str(query.get("state", "")),
        phase=str(query.get("phase", "")),
        restarts=int(query.get("restarts", 0)),
        error=query.get("error"),
        batches=int(query.get("batches", 0)),
        records_in=int(query.get("records_in", 0)),
        records_out=int(query.get("records_out", 0)),
        in_per_second=float(query.get("in_per_second", 0)),
        out_per_second=float(query.get("out_per_second", 0)),
        lag_records=query.get("lag_records"),
        batch_ms=int(query.get("batch_ms", 0)),
        last_batch_at=query.get("last_batch_at"),
        topics=tuple(query.get("topics", ())),
    )
