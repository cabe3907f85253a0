"""An output of a pipeline that has no stream in it: written once, in a thread, so that others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ruslo.pipeline.files.model import Output
from ruslo.pipeline.runner.figures import Figures
from ruslo.pipeline.runner.query_run import Phase, QueryState
from ruslo.pipeline.runner.views import spark_reason


class BatchRun:
    """``write`` writes everything and answers how many rows that were."""

    def __init__(self, output: Output, write: Callable[[], int]) -> None:
        self.output = output
        self.figures = Figures()
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

    def stop(self, within_s: float, gave_up: Callable[[], bool]) -> None:
        """A batch is all or nothing, so that a stop waits for it."""
        if self._thread.is_alive():
            self._thread.join(within_s)
        if not self.state.is_over:
            self.state = QueryState.STOPPED

    def _run(self) -> None:
        try:
            self.figures.records_out = self._write()
        except Exception as error:  # whatever it is, it is this batch's end and is told as such
            self.error, self.state = spark_reason(error), QueryState.FAILED
        else:
            self.figures.batches, self.state = 1, QueryState.FINISHED
