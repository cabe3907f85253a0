"""``ruslo demo``: a broker, live events, pipelines on Spark, and a check that nothing was lost."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.console import console_options, start_console
from ruslo.cli.arguments.options import Amount, examples, output_option

if TYPE_CHECKING:
    from ruslo.cli.demo.run import DemoRun
    from ruslo.cli.demo.spark import DemoSpark

_IDLE_TIMEOUT_S = 600.0
"""Time without a new batch or result after which the demo stops waiting. The first batch of a fresh
installation can take minutes on a busy machine, because it compiles the decoders."""


@click.command(
    short_help="Watch events flow through a broker and Spark.",
    epilog=examples(
        "ruslo demo",
        "ruslo demo --seconds 30 --rate 2000",
        "ruslo demo --no-spark             # only the broker",
        "ruslo demo -b 127.0.0.1:9092      # use a running cluster",
    ),
)
@click.option("--seconds", type=Amount(0.1), help="Seconds to send events for (default: until Ctrl-C).")
@click.option("--rate", type=Amount(1, 100_000), default=200.0, show_default=True, help="Events per second.")
@click.option("--spark/--no-spark", "with_spark", default=True, help="Run Spark pipelines (default: yes).")
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT[,…]",
    help="Use this cluster instead of a new broker.",
)
@output_option
@console_options
def demo(
    seconds: float | None,
    rate: float,
    with_spark: bool,
    bootstrap: str | None,
    output: str,
    console_port: int | None,
    no_console: bool,
) -> None:
    """Start a broker, send orders, payments and van positions to it, and watch the results.

    Two Spark pipelines join orders with payments and total the sales of each city, exactly once. A web
    console shows the cluster in a browser.

    At the end the demo compares acknowledged events, events read back and
    results. Exit code 1: an event or a result was lost or duplicated.
    """
    from ruslo.cli.demo.events import TOPICS
    from ruslo.cli.demo.results import read_results
    from ruslo.cli.demo.run import DemoRun
    from ruslo.cli.demo.spark import RESULTS, DemoSpark, why_no_spark
    from ruslo.cli.demo.summary import Summary
    from ruslo.cli.demo.view import demo_view

    missing = why_no_spark() if with_spark else None
    if missing is not None:
        click.echo(f"The demo runs without Spark. {missing}", err=True)
    with contextlib.ExitStack() as held:
        address = held.enter_context(_cluster(bootstrap))
        results = RESULTS if with_spark and missing is None else ()
        _create_topics(address, (*TOPICS, *results))
        run = DemoRun(address, rate)
        held.callback(run.close)
        starts = run.prepare(results)
        spark: DemoSpark | None = None
        if results:
            folder = held.enter_context(
                tempfile.TemporaryDirectory(prefix="ruslo-demo-", ignore_cleanup_errors=True)
            )
            spark = held.enter_context(DemoSpark(Path(folder), address, starts))
        held.enter_context(_stopping_on_signals(run))
        heading = f"Ruslo at {address}"
        console = None if no_console else start_console(address, console_port, _print_note)
        if console is not None:
            heading += f", console at {held.enter_context(console).address}"
        with demo_view(heading, spark) as show:
            show = show if spark is None else _watching(spark, show)
            run.run(seconds, show)
            elapsed_s = run.seconds
            run.finish()
            if spark is not None:
                _wait_for_results(run, spark, show)
        verdict = None
        if spark is not None:
            spark.stop()
            # Read all results again after the end, to find duplicates that a late batch wrote.
            found = read_results(run.config, run.result_starts)
            verdict = run.ledger.compare(found.receipts, found.totals)
    Summary(run, elapsed_s, verdict).print(output)


def _print_note(text: str) -> None:
    click.echo(text, err=True)


def _watching(spark: DemoSpark, show: Callable[[DemoRun], None]) -> Callable[[DemoRun], None]:
    """``show``, which also ends the demo as soon as the pipelines have failed."""

    def show_or_fail(run: DemoRun) -> None:
        if spark.has_ended:
            raise click.ClickException(f"The pipelines failed:\n{spark.log_tail()}")
        show(run)

    return show_or_fail


def _wait_for_results(run: DemoRun, spark: DemoSpark, show: Callable[[DemoRun], None]) -> None:
    """Wait until all results have arrived, or none arrive any more."""
    click.echo("Sending is done. Waiting for the results of Spark …", err=True)
    deadline, batches = time.monotonic() + _IDLE_TIMEOUT_S, 0
    while not run.has_all_results and time.monotonic() < deadline:
        before, batches = batches, spark.batches
        if run.follow() or batches != before:
            deadline = time.monotonic() + _IDLE_TIMEOUT_S
        show(run)
    if not run.has_all_results:
        click.echo(f"No new results for {_IDLE_TIMEOUT_S:.0f} s. Counting the results so far.", err=True)


@contextlib.contextmanager
def _stopping_on_signals(run: DemoRun) -> Iterator[None]:
    """Let Ctrl-C end the loop between two events, so that every event is counted."""

    def stop(number: int, frame: FrameType | None) -> None:
        run.stopping = True
        signal.signal(signal.SIGINT, before)  # a second Ctrl-C exits at once

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)  # so that the child processes (broker and Spark) are stopped

    before, before_term = signal.signal(signal.SIGINT, stop), signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, before_term)


@contextlib.contextmanager
def _cluster(bootstrap: str | None) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    from ruslo.testing import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def _create_topics(bootstrap: str, names: tuple[str, ...]) -> None:
    from ruslo.cli.running import with_admin
    from ruslo.client.admin.topics import NewTopic
    from ruslo.model.errors import ErrorCode, KafkaError

    wanted = [NewTopic(name, partitions=3) for name in names]
    for result in with_admin(bootstrap, lambda admin: admin.topics.create(wanted)).values():
        if isinstance(result, KafkaError) and result.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise result
