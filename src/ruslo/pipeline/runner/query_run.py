"""The lifecycle of one query: started, monitored, restarted after failures, stopped.

WAITING → RUNNING → FINISHED      all records up to the end have been read
             │  └──→ STOPPED      a stop was requested
             ├────→ WAITING       it failed and will be restarted
             └────→ FAILED        it failed too often, or a restart cannot help
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from ruslo.model.errors import ConfigError
from ruslo.pipeline.files.model import OnError, Output
from ruslo.pipeline.runner.graceful_stop import stop_gracefully
from ruslo.pipeline.runner.query_metrics import QueryMetrics
from ruslo.pipeline.runner.views import spark_reason

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)


class Phase(StrEnum):
    HISTORY = "history"
    """Reads existing records in large batches, up to the end when the phase starts."""
    LIVE = "live"
    ONCE = "once"
    """Reads existing records, then finishes."""


class QueryState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in (QueryState.FINISHED, QueryState.STOPPED, QueryState.FAILED)


class QueryRun:
    """``start`` starts the Spark query of an output for a phase."""

    def __init__(
        self,
        output: Output,
        phases: tuple[Phase, ...],
        on_error: OnError,
        start: Callable[[Phase], StreamingQuery],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.output = output
        self.metrics = QueryMetrics()
        self.state = QueryState.WAITING
        self.error: str | None = None
        self.restarts = 0
        self._phases = list(phases)
        self._on_error = on_error
        self._start = start
        self._clock = clock
        self._query: StreamingQuery | None = None
        self._failures_in_a_row = 0
        self._start_at = clock()
        self._last_report: tuple[str, int, str] | None = None

    @property
    def phase(self) -> Phase:
        return self._phases[0]

    def tick(self) -> None:
        """Start or check the query."""
        if self.state is QueryState.WAITING and self._clock() >= self._start_at:
            self._begin()
        elif self.state is QueryState.RUNNING:
            self._guarded(self._check)

    def stop(self, within_s: float, abandoned: Callable[[], bool]) -> None:
        if self.state is QueryState.RUNNING:
            self._guarded(lambda: self._end(within_s, abandoned))
        if not self.state.is_over:
            self.state = QueryState.STOPPED

    def _end(self, within_s: float, abandoned: Callable[[], bool]) -> None:
        assert self._query is not None, "a running query was started"
        if not stop_gracefully(self._query, within_s, abandoned):
            _log.warning("%s: interrupted the current batch; the next run repeats it", self.output.name)
        self._update_metrics()

    def _guarded(self, call: Callable[[], None]) -> None:
        """Fail for good if a Spark Connect server is gone or no longer has the session."""
        from pyspark.errors import PySparkException

        try:
            call()
        except PySparkException as error:
            self._fail_for_good(f"Spark no longer knows the query: {spark_reason(error)}")

    def _begin(self) -> None:
        from pyspark.errors import AnalysisException

        try:
            self._query = self._start(self.phase)
        except (ConfigError, AnalysisException) as error:
            self._fail_for_good(spark_reason(error))
        except Exception as error:  # starting may fail temporarily, as batches may
            self._fail(spark_reason(error))
        else:
            self.state = QueryState.RUNNING

    def _check(self) -> None:
        assert self._query is not None, "a running query was started"
        active = self._query.isActive
        self._update_metrics()
        if active:
            return
        error = self._query.exception()
        if error is not None:
            self._fail(spark_reason(error))
        elif len(self._phases) > 1:
            del self._phases[0]
            self._begin()
        else:
            self.state, self.error = QueryState.FINISHED, None

    def _update_metrics(self) -> None:
        """Add the progress reports since the last call. Without a new one this costs one call to Spark."""
        assert self._query is not None, "a running query was started"
        last = self._query.lastProgress
        if last is None or _report_key(last) == self._last_report:
            return
        for progress in self._query.recentProgress:
            key = _report_key(progress)
            seen = self._last_report
            if seen is not None and seen[0] == key[0] and key[1:] <= seen[1:]:
                continue
            self._last_report = key
            before = self.metrics.batches
            self.metrics.add(json.loads(progress.json))
            if self.metrics.batches > before:
                self._failures_in_a_row = 0
                self.error = None

    def _fail(self, reason: str) -> None:
        self._failures_in_a_row += 1
        allowed = self._on_error.restarts
        if allowed is not None and self._failures_in_a_row > allowed:
            self._fail_for_good(reason)
            return
        delay_ms = min(
            self._on_error.delay_ms * 2 ** (self._failures_in_a_row - 1), self._on_error.max_delay_ms
        )
        self.state, self.error = QueryState.WAITING, reason
        self.restarts += 1
        self._start_at = self._clock() + delay_ms / 1000
        first_line = reason.partition("\n")[0]
        _log.warning("%s failed, restarting in %.1f s: %s", self.output.name, delay_ms / 1000, first_line)

    def _fail_for_good(self, reason: str) -> None:
        self.state, self.error = QueryState.FAILED, reason
        _log.error("%s failed: %s", self.output.name, reason)


def _report_key(progress: StreamingQueryProgress) -> tuple[str, int, str]:
    """Identifies and orders reports: an idle query reports the same batch id many times."""
    return str(progress.runId), progress.batchId, progress.timestamp
