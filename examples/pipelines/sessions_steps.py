"""Visits of users, kept in Spark's state store until they are over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

VISIT = "begins_ms BIGINT, ends_ms BIGINT, clicks BIGINT"


class Visits(StatefulProcessor):
    """Keeps one visit per user; a timer writes it when no more clicks can belong to it."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._visit = handle.getValueState("visit", VISIT)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        visit = self._visit.get() if self._visit.exists() else None
        for at_ms in sorted(row.at_ms for row in rows):
            if visit is not None and at_ms > visit[1] + self._gap_ms:
                yield self._row(key, visit)
                visit = None
            begins_ms, ends_ms, clicks = (at_ms, at_ms, 0) if visit is None else visit
            visit = (min(begins_ms, at_ms), max(ends_ms, at_ms), clicks + 1)
        if visit is not None:
            self._visit.update(tuple(visit))
            for timer_ms in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer_ms)
            self._handle.registerTimer(visit[1] + self._gap_ms)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        if self._visit.exists():
            yield self._row(key, self._visit.get())
            self._visit.clear()

    def close(self) -> None:
        """Required by Spark; the processor holds no resources."""

    def _row(self, key: Any, visit: Any) -> Row:
        return Row(user=key[0], begins_ms=visit[0], ends_ms=visit[1], clicks=visit[2])


def visits(clicks: DataFrame, gap_minutes: str) -> DataFrame:
    found = (
        clicks.withColumn("at_ms", F.unix_millis("at"))
        .groupBy("user")
        .transformWithState(
            statefulProcessor=Visits(int(gap_minutes) * 60_000),
            outputStructType=f"user STRING, {VISIT}",
            outputMode="append",
            timeMode="eventTime",
        )
    )
    return found.select(
        "user",
        F.timestamp_millis("begins_ms").alias("begins"),
        F.timestamp_millis("ends_ms").alias("ends"),
        "clicks",
    )
