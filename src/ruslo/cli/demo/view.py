"""Progress of the demo: a live view on a terminal, otherwise a line every two seconds."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from ruslo.cli.demo.events import TOPICS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ruslo.cli.demo.run import DemoRun
    from ruslo.cli.demo.spark import DemoSpark
    from ruslo.runs.report import RunReport

STARTING = "starting (takes 10 to 60 seconds)"
_LINE_INTERVAL_S = 2.0


@contextlib.contextmanager
def demo_view(heading: str, spark: DemoSpark | None) -> Iterator[Callable[[DemoRun], None]]:
    """``heading`` names the addresses of the broker and the console."""
    if not sys.stderr.isatty():
        click.echo(heading, err=True)
        yield PlainView(spark)
        return
    from rich.console import Console
    from rich.live import Live

    # On stderr: stdout holds only the summary.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        rates = Rates()
        yield lambda run: live.update(_live_view(run, rates, heading, spark), refresh=True)


class Rates:
    """Events per second of each topic, averaged over the last updates."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, dict[str, int]]] = []

    def update(self, run: DemoRun) -> dict[str, float]:
        now = run.seconds
        self._seen = [*self._seen[-8:], (now, topic_reads(run))]
        then, before = self._seen[0]
        elapsed = max(now - then, 0.001)
        return {topic: (count - before[topic]) / elapsed for topic, count in self._seen[-1][1].items()}


def topic_reads(run: DemoRun) -> dict[str, int]:
    reads = dict.fromkeys(TOPICS, 0)
    for partition, count in run.partitions.items():
        reads[partition.topic] += count.read
    return reads


class PlainView:
    def __init__(self, spark: DemoSpark | None) -> None:
        self._spark = spark
        self._next_s = 1.0
        self._rates = Rates()

    def __call__(self, run: DemoRun) -> None:
        rates = self._rates.update(run)
        if run.seconds < self._next_s:
            return
        self._next_s = run.seconds + _LINE_INTERVAL_S
        parts = [f"{run.seconds:5.1f} s", f"acked {run.acked}", f"read back {run.read}"]
        parts.append(f"{sum(rates.values()):.0f} events/s")
        if self._spark is not None:
            parts.append(f"Spark {_spark_state(self._spark.reports())}")
            parts.append(f"receipts {len(run.results.receipts)} of {run.ledger.receipts_due}")
        click.echo("  ".join(parts), err=True)


def _spark_state(reports: list[RunReport]) -> str:
    if not reports:
        return STARTING
    errors = (query.error for report in reports for query in report.queries if query.state == "waiting")
    if failure := next(filter(None, errors), None):
        return f"retrying after: {failure.splitlines()[0]}"
    if not any(query.batches for report in reports for query in report.queries):
        return "processing its first batch"
    return f"lag {sum(report.lag_records or 0 for report in reports)}"


def _live_view(run: DemoRun, rates: Rates, heading: str, spark: DemoSpark | None) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    latency = run.end_to_end
    parts: list[RenderableType] = [
        Text.assemble(
            (f" {heading}", "bold"), (f"   {run.seconds:.0f} s", "dim"), ("   Ctrl-C stops", "dim")
        ),
        Text(),
        _streams(run, rates.update(run)),
        Text(
            f" {run.acked:,} acknowledged, {run.read:,} read back; end to end "
            f"{latency.percentile_ms(50):.0f} ms (99 %: {latency.percentile_ms(99):.0f} ms)",
            style="dim",
        ),
        Text(),
    ]
    if spark is not None:
        parts += [_pipelines(spark.reports()), Text()]
        if run.results.totals:
            so_far = (
                f" {len(run.results.receipts):,} of {run.ledger.receipts_due:,} paid orders have a receipt"
            )
            parts += [_results(run), Text(so_far, style="dim"), Text()]
    parts += [Text(f" {line}", no_wrap=True, overflow="ellipsis", style="dim") for line in run.last_events]
    return Group(*parts)


def _table(*columns: str) -> Table:
    """A table with names in the first column and numbers in the others."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, header_style="dim", show_edge=False)
    table.add_column(columns[0], min_width=22, style="cyan")
    for name in columns[1:]:
        table.add_column(name, justify="right", min_width=10)
    return table


def _streams(run: DemoRun, per_second: dict[str, float]) -> Table:
    table = _table("streams", "events", "per second")
    for topic, count in topic_reads(run).items():
        table.add_row(topic, f"{count:,}", f"{per_second[topic]:,.0f}")
    return table


def _pipelines(reports: list[RunReport]) -> RenderableType:
    from rich.text import Text

    if not reports:
        return Text.assemble((" Spark  ", "cyan"), (STARTING, "dim"))
    table = _table("pipelines on Spark", "in", "in/s", "out", "lag", "batch ms")
    for report in reports:
        for query in report.queries:
            table.add_row(
                f"{report.pipeline}" + ("" if query.state == "running" else f" ({query.state})"),
                f"{query.records_in:,}",
                f"{query.in_per_second:,.0f}",
                f"{query.records_out:,}",
                "-" if query.lag_records is None else f"{query.lag_records:,}",
                f"{query.batch_ms:,}",
            )
    return table


def _results(run: DemoRun) -> Table:
    table = _table("sales, exactly once", "orders", "declined", "paid")
    for city, total in sorted(run.results.totals.items()):
        table.add_row(city, f"{total.orders:,}", f"{total.declined:,}", f"{total.paid_cents / 100:,.2f}")
    return table
