"""The metrics of a query, collected from Spark's progress reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

OUT_METRIC = "ruslo_out"
"""The observed metric that counts the rows written to the sink."""


@dataclass(slots=True)
class QueryMetrics:
    batches: int = 0
    records_in: int = 0
    records_out: int = 0
    in_per_second: float = 0.0
    out_per_second: float = 0.0
    lag_records: int | None = None
    """None if a source does not report its latest offsets."""
    batch_ms: int = 0
    last_batch_id: int = -1
    last_batch_at: str | None = None

    def add(self, progress: Mapping[str, Any]) -> None:
        """Add a progress report. Reports of an idle stream have no batch, only the offsets of its sources."""
        self.lag_records = _lag(progress.get("sources", ()))
        duration_ms = int(progress.get("durationMs", {}).get("triggerExecution", 0))
        records_in = _records_in(progress)
        if "addBatch" not in progress.get("durationMs", {}):
            self.in_per_second = self.out_per_second = 0.0
            return
        records_out = _records_out(progress)
        self.batches += 1
        self.records_in += records_in
        self.records_out += records_out
        self.batch_ms = duration_ms
        seconds = max(duration_ms, 1) / 1000
        self.in_per_second = records_in / seconds
        self.out_per_second = records_out / seconds
        self.last_batch_id = int(progress.get("batchId", -1))
        self.last_batch_at = progress.get("timestamp")


def _records_in(progress: Mapping[str, Any]) -> int:
    """Reports over Spark Connect lack the sum over all sources."""
    if "numInputRows" in progress:
        return int(progress["numInputRows"])
    return sum(int(source.get("numInputRows", 0)) for source in progress.get("sources", ()))


def _records_out(progress: Mapping[str, Any]) -> int:
    """Metrics have values by name; over Spark Connect they are a row, with the names in its schema."""
    observed = progress.get("observedMetrics", {}).get(OUT_METRIC, {})
    values = observed.get("values")
    return int((observed.get("rows") if values is None else values[0]) or 0)


def _lag(sources: Iterable[Mapping[str, Any]]) -> int | None:
    total: int | None = None
    for source in sources:
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        if latest is not None and end is not None:
            lag = sum(max(0, offset - end.get(partition, offset)) for partition, offset in latest.items())
            total = lag if total is None else total + lag
    return total


def _offsets(value: object) -> dict[tuple[str, str], int] | None:
    """The offsets of format("ruslo") by topic and partition; None for another source."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    offsets: dict[tuple[str, str], int] = {}
    for topic, entry in value.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("offsets"), dict):
            return None
        offsets |= {(topic, partition): int(offset) for partition, offset in entry["offsets"].items()}
    return offsets
