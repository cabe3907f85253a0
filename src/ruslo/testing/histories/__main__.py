"""``python -m ruslo.testing.histories``: test a system that speaks Kafka's protocol, or check a history."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random

import click

from ruslo.testing.histories.anomalies import Verdict
from ruslo.testing.histories.checker import check
from ruslo.testing.histories.digest import MalformedHistory
from ruslo.testing.histories.files import load

RUN_EXAMPLE = """
Example, while you kill brokers, partition networks, or move leaders:

    python -m ruslo.testing.histories run --bootstrap-server 127.0.0.1:9092 --seconds 60 history
"""
CHECK_EXAMPLE = """
Example:

    python -m ruslo.testing.histories check history
"""


@click.group()
def histories() -> None:
    """Check Kafka's transactional guarantees."""


@histories.command(name="run", epilog=RUN_EXAMPLE)
@click.option("--bootstrap-server", envvar="RUSLO_BOOTSTRAP", default="127.0.0.1:9092", show_default=True)
@click.option("--seconds", type=click.FloatRange(min=1), default=30.0, show_default=True)
@click.option("--writers", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--partitions", type=click.IntRange(min=1), default=4, show_default=True)
@click.option(
    "--torment/--leave-alone",
    "inject_faults",
    default=True,
    help="Kill and pause producers at random (default: yes).",
)
@click.argument("folder", type=click.Path(path_type=Path))
def run_workload(
    bootstrap_server: str, seconds: float, writers: int, partitions: int, inject_faults: bool, folder: Path
) -> None:
    """Run transactional producers and consumers, record their history in FOLDER, and check it.

    The command creates two topics whose names start with "history-".
    The exit code is 1 if there is an anomaly, or a partition could not be read to its end.
    """
    from ruslo.testing.histories.workload.settings import WorkloadSettings
    from ruslo.testing.histories.workload.workload import Workload

    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty: give a new folder")
    settings = WorkloadSettings(
        bootstrap=bootstrap_server,
        folder=str(folder),
        topic=f"history-{time.time_ns():x}",
        partitions=partitions,
        keys=3,
        transaction_timeout_ms=10_000,
    )
    random = Random()
    with Workload(settings, writers=writers) as workload:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            time.sleep(min(random.uniform(0.2, 2), max(ends_at - time.monotonic(), 0)))
            if inject_faults:
                workload.inject_fault()
            workload.restart_writers()
        verdict = workload.audit()
    _report(verdict)


@histories.command(name="check", epilog=CHECK_EXAMPLE)
@click.argument("history", type=click.Path(exists=True, path_type=Path))
def check_history(history: Path) -> None:
    """Check a history: a file of events, or a folder of such files."""
    try:
        verdict = check(load(history))
    except MalformedHistory as error:
        raise click.UsageError(f"this is not a history: {error}") from error
    _report(verdict)


def _report(verdict: Verdict) -> None:
    click.echo(str(verdict))
    if not verdict.valid or verdict.unproven:
        sys.exit(1)


if __name__ == "__main__":
    histories()
