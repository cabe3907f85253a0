"""``ruslo demo``: a broker, live events, pipelines on Spark, a view of it all, and a count at the end."""

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

_NOTHING_NEW_S = 600.0
"""So long without a batch or a result means that none will come. A machine busy with much else, which had to
compile the decoders of a fresh installation, was seen to take more than three minutes for its first batch."""


@click.command(
    short_help="Watch live events flow through a broker and Spark.",
    epilog=examples(
        "ruslo demo",
        "ruslo demo --seconds 30 --rate 2000",
        "ruslo demo --no-spark             # the broker alone",
        "ruslo demo -b 127.0.0.1:9092      # with a cluster that runs already",
    ),
)
@click.option("--seconds", type=Amount(0.1), help="Send for so long; until Ctrl-C if not given.")
@click.option("--rate", type=Amount(1, 100_000), default=200.0, show_default=True, help="Events per second.")
@click.option(
    "--spark/--no-spark", "wants_spark", default=True, help="Whether pipelines on Spark take part; they do."
)
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT[,…]",
    help="Use this cluster, not a new broker.",
)
@output_option
@console_options
def demo(
    seconds: float | None,
    rate: float,
    wants_spark: bool,
    bootstrap: str | None,
    output: str,
    console_port: int | None,
    no_console: bool,
) -> None:
    """Start a broker, send it orders, payments and positions of vans, and watch what comes of them.

    Two pipelines on Spark join orders with their payments and add up what each city buys, exactly once. At
    the end everything is counted: what was acknowledged, what was read back, what came out; exits 1 if
    something was lost or came twice. Meanwhile a web console shows all of it in a browser.
    """
    from ruslo.cli.demo.events import TOPICS
    from ruslo.cli.demo.results import read_results
    from ruslo.cli.demo.run import DemoRun
    from ruslo.cli.demo.spark import RESULTS, DemoSpark, why_no_spark
    from ruslo.cli.demo.summary import Summary
    from ruslo.cli.demo.view import demo_view

    missing = why_no_spark() if wants_spark else None
    if missing is not None:
        click.echo(f"The demo goes on without Spark. {missing}", err=True)
    with contextlib.ExitStack() as held:
        address = held.enter_context(_cluster(bootstrap))
        results = RESULTS if wants_spark and missing is None else ()
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
        console = None if no_console else start_console(address, console_port, _say)
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
            # Read anew and after the end: what a late batch had written twice would be seen.
            found = read_results(run.config, run.result_starts)
            verdict = run.ledger.compare(found.receipts, found.totals)
    Summary(run, elapsed_s, verdict).print(output)


def _say(text: str) -> None:
    click.echo(text, err=True)


def _watching(spark: DemoSpark, show: Callable[[DemoRun], None]) -> Callable[[DemoRun], None]:
    """Pipelines that have ended by themselves end the demo at the next look, not when it is over."""

    def look(run: DemoRun) -> None:
        if spark.has_ended:
            raise click.ClickException(f"the pipelines have ended by themselves:\n{spark.complaint()}")
        show(run)

    return look


def _wait_for_results(run: DemoRun, spark: DemoSpark, show: Callable[[DemoRun], None]) -> None:
    """Until what was sent has come out, or it is clear that it will not."""
    click.echo("No more is sent; waiting until all of it has come out of Spark …", err=True)
    deadline, batches = time.monotonic() + _NOTHING_NEW_S, 0
    while not run.all_came_out and time.monotonic() < deadline:
        before, batches = batches, spark.batches
        if run.follow() or batches != before:
            deadline = time.monotonic() + _NOTHING_NEW_S
        show(run)
    if not run.all_came_out:
        click.echo(f"Nothing new for {_NOTHING_NEW_S:.0f} s: counting what has come until now.", err=True)


@contextlib.contextmanager
def _stopping_on_signals(run: DemoRun) -> Iterator[None]:
    """Ctrl-C ends the loop between two events: an exception in the middle of one would leave it uncounted."""

    def stop(number: int, frame: FrameType | None) -> None:
        run.stopping = True
        signal.signal(signal.SIGINT, before)  # the second Ctrl-C does not wait for the summary

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)  # so that broker and Spark, processes of their own, end with this one

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
