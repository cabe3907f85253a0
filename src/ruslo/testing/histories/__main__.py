"""``python -m ruslo.testing.histories``: put a system that speaks Kafka to the test, or judge a history."""

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
Example, while you kill brokers, cut networks, or move leaders:

    python -m ruslo.testing.histories run --bootstrap-server 127.0.0.1:9092 --seconds 60 history
"""
CHECK_EXAMPLE = """
Example:

    python -m ruslo.testing.histories check history
"""


@click.group()
def histories() -> None:
    """Are transactions what they promise to be?"""


@histories.command(name="run", epilog=RUN_EXAMPLE)
@click.option("--bootstrap-server", envvar="RUSLO_BOOTSTRAP", default="127.0.0.1:9092", show_default=True)
@click.option("--seconds", type=click.FloatRange(min=1), default=30.0, show_default=True)
@click.option("--writers", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--partitions", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--torment/--leave-alone", default=True, help="Kill and stop writers at random, or do not.")
@click.argument("folder", type=click.Path(path_type=Path))
def run_workload(
    bootstrap_server: str,
    seconds: float,
    writers: int,
    partitions: int,
    torment: bool,
    folder: Path,
) -> None:
    """Run transactional writers and readers, write their history to FOLDER, and judge it.

    Two new topics are made for it, whose names begin with "history-".
    The exit code is 1 if there is an anomaly, or something could not be read.
    """
    from ruslo.testing.histories.workload.crew import Crew
    from ruslo.testing.histories.workload.settings import WorkloadSettings

    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty: a history needs a folder of its own")
    settings = WorkloadSettings(
        bootstrap=bootstrap_server,
        folder=str(folder),
        topic=f"history-{time.time_ns():x}",
        partitions=partitions,
        keys=3,
        transaction_timeout_ms=10_000,
    )
    random = Random()
    with Crew(settings, writers=writers) as crew:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            time.sleep(min(random.uniform(0.2, 2), max(ends_at - time.monotonic(), 0)))
            if torment:
                crew.torment()
            crew.revive()
        verdict = crew.audit()
    _tell(verdict)


@histories.command(name="check", epilog=CHECK_EXAMPLE)
@click.argument("history", type=click.Path(exists=True, path_type=Path))
def check_history(history: Path) -> None:
    """Judge a history: a file of events, or a folder of such files."""
    try:
        verdict = check(load(history))
    except MalformedHistory as error:
        raise click.UsageError(f"this is not a history: {error}") from error
    _tell(verdict)


def _tell(verdict: Verdict) -> None:
    click.echo(str(verdict))
    if not verdict.valid or verdict.unproven:
        sys.exit(1)


if __name__ == "__main__":
    histories()
