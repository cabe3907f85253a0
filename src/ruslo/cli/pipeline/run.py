"""``ruslo pipeline run``: run pipelines in one Spark session."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import DEFAULT_BOOTSTRAP, Amount, examples, output_option, pairs_callback
from ruslo.cli.pipeline.files import files_argument, load_valid
from ruslo.cli.terminal.output import hint, print_json, print_table
from ruslo.pipeline.session import is_connect_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ruslo.pipeline.files.model import Pipeline
    from ruslo.pipeline.runner.pipeline_run import PipelineRun


@click.command(
    short_help="Run pipelines.",
    epilog=examples(
        "ruslo pipeline run orders.yaml",
        "ruslo pipeline run orders.yaml payments.yaml --metrics-port 9404",
        "ruslo pipeline run orders.yaml --once        # process existing records, then exit",
        "ruslo pipeline run orders.yaml --history     # existing records in large batches, then live",
        "ruslo pipeline run orders.yaml --master spark://10.0.0.5:7077 --env orders-env.tar.gz",
    ),
)
@files_argument
@click.option(
    "--bootstrap-server",
    "-b",
    "bootstrap",
    envvar="RUSLO_BOOTSTRAP",
    show_envvar=True,
    metavar="HOST:PORT[,…]",
    help=f"Brokers of the cluster (default: as in the file, or {DEFAULT_BOOTSTRAP}).",
)
@click.option("--once", is_flag=True, help="Process the existing records, then exit.")
@click.option(
    "--history", is_flag=True, help="Process existing records in large batches first, then go live."
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Spark master: local[4], spark://…, yarn, k8s://…, or a Spark Connect server: sc://HOST:PORT.",
)
@click.option(
    "--conf",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs_callback,
    help="A Spark setting; overrides the file. Repeatable.",
)
@click.option(
    "--env",
    "environment",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Archive from 'ruslo pipeline pack', for executors on other machines.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus metrics on this port.")
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, help="Address of the metrics listener."
)
@click.option(
    "--stop-timeout",
    type=Amount(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time that a stop waits for the current batch.",
)
@click.option("--log-level", default="ERROR", show_default=True, help="Lowest level of Spark's log.")
@output_option
def run(
    paths: tuple[Path, ...],
    bootstrap: str | None,
    once: bool,
    history: bool,
    master: str,
    settings: Mapping[str, str],
    environment: Path | None,
    metrics_port: int | None,
    metrics_host: str,
    stop_timeout: float,
    log_level: str,
    output: str,
) -> None:
    """Run pipelines until Ctrl-C, SIGTERM or 'ruslo pipeline stop'.

    The current batch is finished first, unless Ctrl-C is pressed again. A query that fails is restarted after
    a backoff. Exit code 0: all pipelines finished or were stopped. 1: a pipeline failed permanently.
    """
    if once and history:
        raise click.UsageError("--once and --history exclude each other. Remove one.")
    if environment is not None and is_connect_address(master):
        raise click.UsageError(
            "--env cannot send an environment to the executors of a Spark Connect server. "
            "Install Ruslo on the server, and remove --env."
        )
    from ruslo.broker.node.log_lines import log_to_stderr
    from ruslo.cli.pipeline.view import run_view
    from ruslo.pipeline.runner.pipeline_run import PipelineRun, RunOptions
    from ruslo.pipeline.runner.prometheus import metrics_server
    from ruslo.pipeline.runner.stop_signals import StopSignals
    from ruslo.pipeline.runner.supervisor import Supervisor

    pipelines = load_valid(paths)
    log_to_stderr("WARNING")
    given = {"spark.log.level": log_level.upper(), **settings}
    with StopSignals() as signals:
        if is_connect_address(master):
            session = _connected(pipelines, master, settings)
        else:
            session = _spark(pipelines, master, environment, given)
        with session as spark:
            signals.listen()
            runs = [
                PipelineRun(
                    spark,
                    pipeline,
                    RunOptions(
                        bootstrap or pipeline.bootstrap or DEFAULT_BOOTSTRAP, once=once, history=history
                    ),
                )
                for pipeline in pipelines
            ]
            supervisor = Supervisor(runs, signals, stop_within_s=stop_timeout)
            with metrics_server(runs, metrics_port, metrics_host) as port, run_view() as show:
                if port is not None:
                    click.echo(f"Metrics at http://{metrics_host}:{port}/metrics", err=True)
                hint(
                    f"Show the state from another terminal: ruslo pipeline status {' '.join(map(str, paths))}"
                )
                succeeded = supervisor.run(show)
        _summarize(runs, output)
    if not succeeded:
        raise click.exceptions.Exit(1)


@contextlib.contextmanager
def _connected(
    pipelines: Sequence[Pipeline], address: str, given: Mapping[str, str]
) -> Iterator[SparkSession]:
    from ruslo.pipeline.runner.spark_settings import settings_over_connect
    from ruslo.pipeline.session import new_session

    settings = settings_over_connect(pipelines, given)
    if settings.left_out:
        click.echo(
            f"Ignored settings that a Spark Connect server does not accept: {', '.join(settings.left_out)}",
            err=True,
        )
    spark = new_session(", ".join(pipeline.name for pipeline in pipelines), address, settings.kept)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _spark(
    pipelines: Sequence[Pipeline], master: str, environment: Path | None, given: Mapping[str, str]
) -> Iterator[SparkSession]:
    from ruslo.pipeline.class_archive import build_in_background
    from ruslo.pipeline.pack.environment import packed_settings
    from ruslo.pipeline.runner.spark_settings import shared_settings
    from ruslo.pipeline.session import new_session

    name = ", ".join(pipeline.name for pipeline in pipelines)
    with tempfile.TemporaryDirectory(prefix="ruslo-run-", ignore_cleanup_errors=True) as folder:
        packed = packed_settings(environment, Path(folder))
        folders = {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
        # A SIGTERM to the process group (`timeout`, a container) must not end the JVM in the middle of a
        # batch. The JVM inherits the ignored signal, and exits with this process.
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            with contextlib.chdir(folder if packed else "."):
                spark = new_session(name, master, shared_settings(pipelines, {**folders, **packed, **given}))
        finally:
            signal.signal(signal.SIGTERM, before)
        if (archive := build_in_background()) is not None:
            hint(f"Building a class archive in the background, once: Spark starts faster with it. {archive}")
        try:
            yield spark
        finally:
            spark.stop()


def _summarize(runs: Sequence[PipelineRun], output: str) -> None:
    if output == "json":
        print_json([run.status() for run in runs])
        return
    print_table(
        ["PIPELINE", "SINK", "STATE", "BATCHES", "IN", "OUT", "LAG", "RESTARTS"],
        [
            (
                run.pipeline.name,
                query.output.name,
                str(query.state),
                query.metrics.batches,
                query.metrics.records_in,
                query.metrics.records_out,
                query.metrics.lag_records,
                query.restarts,
            )
            for run in runs
            for query in run.runs
        ],
    )
    for run in runs:
        for query in run.runs:
            if query.error is not None:
                click.echo(f"{run.pipeline.name}.{query.output.name}: {query.error}", err=True)
