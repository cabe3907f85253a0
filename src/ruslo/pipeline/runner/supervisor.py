"""Runs pipelines side by side in one Spark until they finish or a stop is requested."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from ruslo.pipeline.dead_letters.counts import DeadLetterCounts, DeadLetterTopic
from ruslo.pipeline.runner.pipeline_run import PipelineRun
from ruslo.pipeline.runner.stop_signals import StopSignals

_TICK_S = 0.2
_STATUS_INTERVAL_S = 1.0


class Supervisor:
    def __init__(
        self, runs: Sequence[PipelineRun], signals: StopSignals, stop_within_s: float = 60.0
    ) -> None:
        self.runs = runs
        self._stop_within_s = stop_within_s
        self._signals = signals
        self._dead_letter_topics = {
            run.pipeline.name: DeadLetterTopic(run.bootstrap, run.pipeline.dead_letters)
            for run in runs
            if run.pipeline.dead_letters is not None
        }
        self._dead_letters = DeadLetterCounts(list(self._dead_letter_topics.values()))

    def run(self, show: Callable[[Sequence[PipelineRun]], None]) -> bool:
        """Run until all pipelines are over; returns whether none failed. A signal stops them gracefully."""
        with contextlib.ExitStack() as held:
            for run in self.runs:
                held.enter_context(run.folder)
                run.prepare()
                # Queries take a while to start; until this line readers see the status of the last run.
                run.folder.write_status(run.status())
            held.enter_context(self._dead_letters)
            try:
                self._loop(show)
            finally:
                self._stop(self.runs)
                self._dead_letters.refresh()
                self._write_status()
                show(self.runs)
                for run in self.runs:
                    run.close()
        return not any(run.has_failed for run in self.runs)

    def _loop(self, show: Callable[[Sequence[PipelineRun]], None]) -> None:
        status_at = 0.0
        while not self._signals.count and not all(run.is_over for run in self.runs):
            for run in self.runs:
                if run.folder.stop_requested and not run.is_over:
                    self._stop([run])
                for query in run.runs:
                    query.tick()
            if time.monotonic() >= status_at:
                status_at = time.monotonic() + _STATUS_INTERVAL_S
                self._write_status()
            show(self.runs)
            time.sleep(_TICK_S)

    def _stop(self, runs: Sequence[PipelineRun]) -> None:
        before = self._signals.count
        for run in runs:
            for query in run.runs:
                # A second signal requests an immediate stop.
                query.stop(self._stop_within_s, lambda: self._signals.count > max(before, 1))

    def _write_status(self) -> None:
        for run in self.runs:
            topic = self._dead_letter_topics.get(run.pipeline.name)
            if topic is not None:
                run.dead_letters = self._dead_letters.count(topic)
            run.folder.write_status(run.status())
