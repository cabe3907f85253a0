"""What the demo shows while it runs: a live table at a terminal, a line per second elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from ruslo.cli.demo_events import TOPICS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ruslo.cli.demo_run import DemoRun


@contextlib.contextmanager
def demo_view(bootstrap: str) -> Iterator[Callable[[DemoRun], None]]:
    if not sys.stderr.isatty():
        yield PlainView()
        return
    from rich.console import Console
    from rich.live import Live

    # On stderr, so that stdout holds the summary alone.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        rates = Rates()
        yield lambda run: live.update(_panel(run, rates, bootstrap), refresh=True)


class Rates:
    """Events per second of each topic since the last look but a few, so that the number does not jitter."""

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
    def __init__(self) -> None:
        self._next_s = 1.0
        self._rates = Rates()

    def __call__(self, run: DemoRun) -> None:
        rates = self._rates.update(run)
        if run.seconds < self._next_s:
            return
        self._next_s = run.seconds + 1.0
        topics = "  ".join(
            f"{topic} {count} ({rates[topic]:.0f}/s)" for topic, count in topic_reads(run).items()
        )
        click.echo(f"{run.seconds:5.1f} s  acked {run.acked}  read {run.read}  {topics}", err=True)


def _panel(run: DemoRun, rates: Rates, bootstrap: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    per_second, reads, latency = rates.update(run), topic_reads(run), run.end_to_end
    topics = Table(title=f"Ruslo at {bootstrap}: {run.seconds:.0f} s, Ctrl-C ends", title_justify="left")
    topics.add_column("topic")
    topics.add_column("events", justify="right")
    topics.add_column("per second", justify="right")
    topics.add_column("next offset per partition")
    for topic in TOPICS:
        offsets = [f"{p.partition}:{c.next_offset}" for p, c in run.partitions.items() if p.topic == topic]
        topics.add_row(topic, f"{reads[topic]:,}", f"{per_second[topic]:,.0f}", "  ".join(offsets))
    totals = Text(
        f"sent {run.sent:,}  acknowledged {run.acked:,}  read back {run.read:,}  "
        f"end to end p50 {latency.percentile_ms(50):.1f} ms, p99 {latency.percentile_ms(99):.1f} ms"
    )
    return Group(topics, totals, Text(), *(Text(line, no_wrap=True, style="dim") for line in run.last_events))
