"""The ``ruslo`` command: a table of its commands, which are imported when they run."""

from __future__ import annotations

import sys

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.arguments.profiles import choose_profile
from ruslo.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "dev": LazyCommand("ruslo.cli.serve.dev", "dev", "Run a development cluster in the foreground."),
    "serve": LazyCommand("ruslo.cli.serve.serve", "serve", "Run a node from a server.properties file."),
    "storage": LazyCommand(
        "ruslo.cli.storage.storage", "storage", "Format and inspect a node's log directories."
    ),
    "topic": LazyCommand(
        "ruslo.cli.topic.topic", "topic", "Create, list, describe, alter and delete topics."
    ),
    "produce": LazyCommand("ruslo.cli.produce.produce", "produce", "Produce records from stdin or a file."),
    "consume": LazyCommand("ruslo.cli.consume.consume", "consume", "Print records of a topic."),
    "group": LazyCommand(
        "ruslo.cli.group.group", "group", "Show consumer lag, reset offsets, delete groups."
    ),
    "share": LazyCommand(
        "ruslo.cli.share.share",
        "share",
        "Show share groups (queues), consume from them, reset and delete them.",
    ),
    "txn": LazyCommand("ruslo.cli.txn.txn", "txn", "Show transactions, find and abort hanging ones."),
    "config": LazyCommand(
        "ruslo.cli.config.config", "config", "Show and change configs of topics, groups and brokers."
    ),
    "client-metrics": LazyCommand(
        "ruslo.cli.client_metrics.client_metrics",
        "client_metrics",
        "Show and change which metrics clients push.",
    ),
    "user": LazyCommand("ruslo.cli.user.user", "user", "List, create and delete SCRAM users."),
    "acl": LazyCommand(
        "ruslo.cli.acl.acl", "acl", "List, create and delete ACLs, and explain what they decide."
    ),
    "quota": LazyCommand("ruslo.cli.quota.quota", "quota", "Show and change client quotas."),
    "token": LazyCommand(
        "ruslo.cli.token.token", "token", "Create, list, renew and expire delegation tokens."
    ),
    "cert": LazyCommand(
        "ruslo.cli.cert.cert", "cert", "Create certificates for development, and describe certificates."
    ),
    "cluster": LazyCommand(
        "ruslo.cli.cluster.cluster", "cluster", "Show nodes and health, move replicas, elect leaders."
    ),
    "log": LazyCommand("ruslo.cli.log.log", "log", "Dump, verify and repair log segments on disk."),
    "pipeline": LazyCommand("ruslo.cli.pipeline.pipeline", "pipeline", "Run data pipelines on Spark."),
    "console": LazyCommand("ruslo.cli.console.console", "console", "Run the web console."),
    "perf": LazyCommand("ruslo.cli.perf.perf", "perf", "Measure throughput and latency."),
    "profile": LazyCommand(
        "ruslo.cli.profile.profile", "profile", "Save clusters by name and switch between them."
    ),
    "doctor": LazyCommand("ruslo.cli.doctor.doctor", "doctor", "Check this machine and report what to fix."),
    "completion": LazyCommand(
        "ruslo.cli.completion.completion", "completion", "Print a shell completion script."
    ),
    "demo": LazyCommand("ruslo.cli.demo.demo", "demo", "Watch events flow through a broker and Spark."),
}


class RusloGroup(LazyGroup):
    """The root command: turns exceptions of commands into messages and exit codes."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            ctx.exit(130)
        except BrokenPipeError:
            _redirect_stdout()
            ctx.exit(0)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from ruslo.cli.terminal.errors import explain

            message = explain(error)
            if message is None:
                raise
            raise click.ClickException(message) from error


def _redirect_stdout() -> None:
    """Send further output to /dev/null: the reader of the pipe (``| head``) is gone."""
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
    "The commands work with Ruslo clusters and with Apache Kafka.",
    epilog=examples(
        "ruslo dev                                   # a broker on 127.0.0.1:9092",
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
            help="Use the cluster of this profile (see 'ruslo profile --help').",
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
    """Open standard streams that the parent process closed (``>&-``).

    Otherwise the next file that we open, such as a log segment, would get the stream's descriptor, and output
    meant for the stream would end up in it.
    """
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open until exit
