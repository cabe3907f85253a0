"""``ruslo demo``: a broker, live events, and a view of them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

import click

from ruslo.cli.options import examples, output_option
from ruslo.cli.output import print_fields, print_json, print_table

if TYPE_CHECKING:
    from ruslo.cli.demo_run import DemoRun


@click.command(
    short_help="Watch live events flow through a broker.",
    epilog=examples(
        "ruslo demo",
        "ruslo demo --seconds 10 --rate 2000",
        "ruslo demo -b 127.0.0.1:9092      # with a cluster that runs already",
    ),
)
@click.option("--seconds", type=click.FloatRange(0.1), help="End after so long; on Ctrl-C if not given.")
@click.option(
    "--rate", type=click.FloatRange(1, 100_000), default=200.0, show_default=True, help="Events per second."
)
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT[,…]",
    help="Use this cluster, not a new broker.",
)
@output_option
def demo(seconds: float | None, rate: float, bootstrap: str | None, output: str) -> None:
    """Start a broker, send it orders, payments and positions of vans, and watch them come back.

    Ends with a summary of how many events were acknowledged and read back; exits 1 if these differ.
    """
    from ruslo.cli.demo_run import DemoRun
    from ruslo.cli.demo_view import demo_view

    with _cluster(bootstrap) as address:
        _create_topics(address)
        run = DemoRun(address, rate)
        try:
            run.prepare()
            with _stopping_on_interrupt(run), demo_view(address) as show:
                run.run(seconds, show)
            elapsed_s = run.seconds
            run.finish()
        finally:
            run.close()
    _summarize(run, elapsed_s, output)


@contextlib.contextmanager
def _stopping_on_interrupt(run: DemoRun) -> Iterator[None]:
    """Ctrl-C ends the loop between two events: an exception in the middle of one would leave it uncounted."""

    def stop(number: int, frame: FrameType | None) -> None:
        run.stopping = True
        signal.signal(signal.SIGINT, before)  # the second Ctrl-C does not wait for the summary

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _cluster(bootstrap: str | None) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    from ruslo.testing import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def _create_topics(bootstrap: str) -> None:
    from ruslo.cli.demo_events import TOPICS
    from ruslo.cli.running import with_admin
    from ruslo.client.topics import NewTopic
    from ruslo.model.errors import ErrorCode, KafkaError

    wanted = [NewTopic(name, partitions=3) for name in TOPICS]
    for result in with_admin(bootstrap, lambda admin: admin.topics.create(wanted)).values():
        if isinstance(result, KafkaError) and result.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise result


def _summarize(run: DemoRun, elapsed_s: float, output: str) -> None:
    from ruslo.cli.demo_events import TOPICS

    by_topic = {
        topic: [count for partition, count in run.partitions.items() if partition.topic == topic]
        for topic in TOPICS
    }
    rows = [
        (topic, sum(c.acked for c in counts), sum(c.read for c in counts))
        for topic, counts in by_topic.items()
    ]
    if output == "json":
        print_json(
            {
                "seconds": round(elapsed_s, 1),
                "sent": run.sent,
                "acked": run.acked,
                "read": run.read,
                "failed": len(run.failed),
                "complete": run.complete,
                "topics": [{"topic": topic, "acked": acked, "read": read} for topic, acked, read in rows],
                "end_to_end_ms": run.end_to_end.as_json(),
            }
        )
    else:
        print_table(["TOPIC", "ACKED", "READ"], rows)
        click.echo()
        print_fields(
            [
                ("Seconds", f"{elapsed_s:.1f}"),
                ("Acked", run.acked),
                ("Read back", run.read),
                ("End to end", run.end_to_end.as_text()),
            ]
        )
    if run.failed:
        raise click.ClickException(
            f"{len(run.failed)} events were not stored; the first because: {run.failed[0]}"
        )
    if not run.complete:
        raise click.ClickException(f"{run.acked} events were acknowledged, but {run.read} were read back")
    if output == "text":
        click.echo("Every acknowledged event was read back.")
