"""An output of a pipeline without streams: written once, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ruslo.pipeline.files.model import Output
from ruslo.pipeline.runner.query_metrics import QueryMetrics
from ruslo.pipeline.runner.query_run import Phase, QueryState
from ruslo.pipeline.runner.views import spark_reason


class BatchRun:
    """``write`` writes all rows and returns their number."""

    def __init__(self, output: Output, write: Callable[[], int]) -> None:
        self.output = output
        self.metrics = QueryMetrics()
        self.state = QueryState.WAITING
        self.error: str | None = None
        self.restarts = 0
        self.phase = Phase.ONCE
        self._write = write
        self._thread = threading.Thread(target=self._run, name=f"batch {output.name}", daemon=True)

    def tick(self) -> None:
        if self.state is QueryState.WAITING:
            self.state = QueryState.RUNNING
            self._thread.start()

    def stop(self, within_s: float, abandoned: Callable[[], bool]) -> None:
        """Wait for the batch, which cannot be stopped half-way."""
        if self._thread.is_alive():
            self._thread.join(within_s)
        if not self.state.is_over:
            self.state = QueryState.STOPPED

    def _run(self) -> None:
        try:
            self.metrics.records_out = self._write()
        except Exception as error:  # any failure ends the batch and is reported
            self.error, self.state = spark_reason(error), QueryState.FAILED
        else:
            self.metrics.batches, self.state = 1, QueryState.FINISHED
