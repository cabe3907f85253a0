"""Progress of ``ruslo pipeline run``: a live table on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from ruslo.pipeline.runner.pipeline_run import PipelineRun, Run

_LINE_INTERVAL_S = 10.0


@contextlib.contextmanager
def run_view() -> Iterator[Callable[[Sequence[PipelineRun]], None]]:
    if not sys.stderr.isatty():
        yield PlainView()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        yield lambda runs: live.update(_table(runs), refresh=True)


class PlainView:
    """Prints a line for a query when its state changes, and every ten seconds while it completes batches."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown: dict[tuple[str, str], tuple[str, int, float]] = {}

    def __call__(self, runs: Sequence[PipelineRun]) -> None:
        now = self._clock()
        for run in runs:
            for query in run.runs:
                key = (run.pipeline.name, query.output.name)
                state = f"{query.state} {query.phase}"
                before = self._shown.get(key)
                due = before is None or before[0] != state
                if (
                    before is not None
                    and query.metrics.batches > before[1]
                    and now - before[2] >= _LINE_INTERVAL_S
                ):
                    due = True
                if due:
                    self._shown[key] = (state, query.metrics.batches, now)
                    click.echo(f"{'.'.join(key)}: {line_of(run, query)}", err=True)


def line_of(run: PipelineRun, query: Run) -> str:
    metrics = query.metrics
    parts = [
        f"{query.state} ({query.phase})",
        f"batch {metrics.last_batch_id} {metrics.batch_ms} ms",
        f"in {metrics.records_in} ({metrics.in_per_second:.0f}/s)",
        f"out {metrics.records_out} ({metrics.out_per_second:.0f}/s)",
    ]
    if metrics.lag_records is not None:
        parts.append(f"lag {metrics.lag_records}")
    if run.dead_letters is not None:
        parts.append(f"dead letters {run.dead_letters}")
    if query.error is not None:
        parts.append(f"restarts {query.restarts}, last error: {query.error.partition(chr(10))[0]}")
    return "  ".join(parts)


def _table(runs: Sequence[PipelineRun]) -> Table:
    from rich.table import Table

    table = Table(title="Pipelines (Ctrl-C stops after the current batch)", title_justify="left")
    for name in ("pipeline", "sink", "state"):
        table.add_column(name)
    for name in ("in", "in/s", "out", "out/s", "lag", "batch ms", "dead letters", "restarts"):
        table.add_column(name, justify="right")
    for run in runs:
        for query in run.runs:
            metrics = query.metrics
            state = f"{query.state} ({query.phase})"
            table.add_row(
                run.pipeline.name,
                query.output.name,
                state if query.error is None else f"{state}: {query.error.partition(chr(10))[0]}",
                f"{metrics.records_in:,}",
                f"{metrics.in_per_second:,.0f}",
                f"{metrics.records_out:,}",
                f"{metrics.out_per_second:,.0f}",
                _number(metrics.lag_records),
                f"{metrics.batch_ms:,}",
                _number(run.dead_letters),
                str(query.restarts),
            )
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
