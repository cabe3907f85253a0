"""One query of a pipeline through its life: started, watched, started again after a failure, stopped.

WAITING → RUNNING → FINISHED      all that was to be read has been read
             │  └──→ STOPPED      somebody asked for it
             ├────→ WAITING       it failed, and a restart is due
             └────→ FAILED        it failed once too often, or in a way that no restart heals
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
from ruslo.pipeline.runner.figures import Figures
from ruslo.pipeline.runner.graceful_stop import stop_gracefully
from ruslo.pipeline.runner.views import spark_reason

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)


class Phase(StrEnum):
    HISTORY = "history"
    """The past, in large batches, up to what is there when it begins."""
    LIVE = "live"
    ONCE = "once"
    """All that is there, and then the end."""


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
    """``start`` makes Spark run the query of an output in a phase."""

    def __init__(
        self,
        output: Output,
        phases: tuple[Phase, ...],
        on_error: OnError,
        start: Callable[[Phase], StreamingQuery],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.output = output
        self.figures = Figures()
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
        self._seen: tuple[str, int, str] | None = None

    @property
    def phase(self) -> Phase:
        return self._phases[0]

    def tick(self) -> None:
        """Look at the query and do what is due."""
        if self.state is QueryState.WAITING and self._clock() >= self._start_at:
            self._begin()
        elif self.state is QueryState.RUNNING:
            self._asking(self._watch)

    def stop(self, within_s: float, gave_up: Callable[[], bool]) -> None:
        if self.state is QueryState.RUNNING:
            self._asking(lambda: self._end(within_s, gave_up))
        if not self.state.is_over:
            self.state = QueryState.STOPPED

    def _end(self, within_s: float, gave_up: Callable[[], bool]) -> None:
        assert self._query is not None, "a running query is one that was started"
        if not stop_gracefully(self._query, within_s, gave_up):
            _log.warning("%s: the batch in hand was cut short, and is done again next time", self.output.name)
        self._note_progress()

    def _asking(self, ask: Callable[[], None]) -> None:
        """A Connect server that is gone, or has forgotten the session, knows the query no more."""
        from pyspark.errors import PySparkException

        try:
            ask()
        except PySparkException as error:
            self._fail_for_good(f"Spark no longer answers for the query: {spark_reason(error)}")

    def _begin(self) -> None:
        from pyspark.errors import AnalysisException

        try:
            self._query = self._start(self.phase)
        except (ConfigError, AnalysisException) as error:
            self._fail_for_good(spark_reason(error))
        except Exception as error:  # Spark's start may fail as its batches may: for a while
            self._fail(spark_reason(error))
        else:
            self.state = QueryState.RUNNING

    def _watch(self) -> None:
        assert self._query is not None, "a running query is one that was started"
        active = self._query.isActive
        self._note_progress()
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

    def _note_progress(self) -> None:
        """Take in the reports that came since the last look; one that is seen again costs one call."""
        assert self._query is not None, "a running query is one that was started"
        last = self._query.lastProgress
        if last is None or _mark(last) == self._seen:
            return
        for progress in self._query.recentProgress:
            mark = _mark(progress)
            if self._seen is not None and self._seen[0] == mark[0] and mark[1:] <= self._seen[1:]:
                continue
            self._seen = mark
            before = self.figures.batches
            self.figures.add(json.loads(progress.json))
            if self.figures.batches > before:
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
        _log.warning("%s failed, again in %.1f s: %s", self.output.name, delay_ms / 1000, _first_line(reason))

    def _fail_for_good(self, reason: str) -> None:
        self.state, self.error = QueryState.FAILED, reason
        _log.error("%s failed: %s", self.output.name, reason)


def _mark(progress: StreamingQueryProgress) -> tuple[str, int, str]:
    """What tells reports apart, in their order: a batch that had nothing to do may report again and again."""
    return str(progress.runId), progress.batchId, progress.timestamp


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
