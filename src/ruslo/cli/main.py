"""The ``ruslo`` command: its commands, a line on each, and where they live; nothing heavy is imported."""

from __future__ import annotations

import sys

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.arguments.profiles import choose_profile
from ruslo.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "dev": LazyCommand("ruslo.cli.serve.dev", "dev", "Run a broker for development in the foreground."),
    "serve": LazyCommand("ruslo.cli.serve.serve", "serve", "Run a node from a server.properties file."),
    "storage": LazyCommand(
        "ruslo.cli.storage.storage", "storage", "Prepare and inspect a node's log directories."
    ),
    "topic": LazyCommand(
        "ruslo.cli.topic.topic", "topic", "Create, list, describe, change and delete topics."
    ),
    "produce": LazyCommand(
        "ruslo.cli.produce.produce", "produce", "Write records from stdin or a file to a topic."
    ),
    "consume": LazyCommand("ruslo.cli.consume.consume", "consume", "Print the records of a topic."),
    "group": LazyCommand(
        "ruslo.cli.group.group", "group", "See how far consumers are, reset and delete groups."
    ),
    "txn": LazyCommand("ruslo.cli.txn.txn", "txn", "See transactions, find and free those that hang."),
    "config": LazyCommand("ruslo.cli.config.config", "config", "Show and change settings by Kafka's names."),
    "cluster": LazyCommand(
        "ruslo.cli.cluster.cluster", "cluster", "See the nodes, move replicas, elect leaders."
    ),
    "log": LazyCommand("ruslo.cli.log.log", "log", "Look inside log files on disk, check and repair them."),
    "pipeline": LazyCommand("ruslo.cli.pipeline.pipeline", "pipeline", "Run data pipelines on Spark."),
    "console": LazyCommand("ruslo.cli.console.console", "console", "Look at a cluster in a browser."),
    "perf": LazyCommand("ruslo.cli.perf.perf", "perf", "Measure throughput and latency."),
    "profile": LazyCommand("ruslo.cli.profile.profile", "profile", "Keep names for clusters and choose one."),
    "doctor": LazyCommand("ruslo.cli.doctor.doctor", "doctor", "Check this machine, and say what to fix."),
    "completion": LazyCommand(
        "ruslo.cli.completion.completion", "completion", "Print the script for shell completion."
    ),
    "demo": LazyCommand("ruslo.cli.demo.demo", "demo", "Watch live events flow through a broker and Spark."),
}


class RusloGroup(LazyGroup):
    """The root: whatever a command raises becomes one clear message and an exit code."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            ctx.exit(130)
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(0)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from ruslo.cli.terminal.errors import explain

            message = explain(error)
            if message is None:
                raise
            raise click.ClickException(message) from error


def _forget_stdout() -> None:
    """The reader of our output has gone (``| head``): keep the interpreter from flushing into its pipe."""
    import os

    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"ruslo {version('ruslo')}")
    except PackageNotFoundError:
        click.echo("ruslo (not installed)")
    ctx.exit()


cli = RusloGroup(
    "ruslo",
    lazy=COMMANDS,
    help="Ruslo is an event-streaming platform that speaks the Kafka protocol.\n\n"
    "The commands work with a Ruslo cluster and with Apache Kafka alike.",
    epilog=examples(
        "ruslo dev                                   # a broker at 127.0.0.1:9092",
        "ruslo topic create orders --partitions 3",
        "echo hello | ruslo produce orders",
        "ruslo consume orders --exit",
    ),
    params=[
        click.Option(
            ["--profile"],
            metavar="NAME",
            expose_value=False,
            callback=choose_profile,
            help="The cluster to work with, by its name: 'ruslo profile --help'.",
        ),
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_show_version,
            help="Show the version and exit.",
        ),
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    _open_closed_streams()
    cli(prog_name="ruslo")


def _open_closed_streams() -> None:
    """Whoever started us may have closed one of the three (``>&-``): Python has None for it, and its number
    would be that of the next file we open, a segment maybe, into which others then write their complaints."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as we live
