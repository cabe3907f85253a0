"""Runs pipelines in tests: copies of the examples, their records, and their results."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruslo.client.librdkafka.producer import Producer
from ruslo.pipeline.files.load import load_pipelines
from ruslo.pipeline.runner.pipeline_run import PipelineRun, RunOptions
from ruslo.pipeline.runner.stop_signals import StopSignals
from ruslo.pipeline.runner.supervisor import Supervisor
from tests.pipeline.conftest import SHORT_LIVED_JAVA
from tests.support.checks.cli_checks import Cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT_LIVED_SPARK = (
    *("--conf", "spark.ui.enabled=false"),
    *("--conf", f"spark.driver.extraJavaOptions={SHORT_LIVED_JAVA}"),
)
"""Options of ``ruslo pipeline run``."""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pipelines"


def example(folder: Path, *names: str) -> list[Path]:
    """Copies of example pipelines, whose checkpoints belong to the test."""
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    return [folder / name for name in names]


def send(bootstrap: str, topic: str, values: Iterable[Any], *, key: str | None = None) -> None:
    """Send JSON records, with one of their fields as key."""
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for value in values:
            text = value if isinstance(value, str) else json.dumps(value)
            producer.send(topic, text, key=None if key is None else str(value[key]))


def received(bootstrap: str, topic: str) -> list[Any]:
    """The values that a read_committed consumer reads."""
    lines = Cli(bootstrap).lines("consume", topic, "--exit", "-X", "isolation.level=read_committed")
    return [json.loads(line["value"]) for line in lines]


def create(bootstrap: str, *topics: str, partitions: int = 2) -> None:
    Cli(bootstrap).ok("topic", "create", *topics, "-p", str(partitions), "--if-not-exists")


def forget_last_commit(checkpoint: Path) -> None:
    """Simulate a driver that died between the sink's commit and Spark's own commit."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def supervise(
    spark: SparkSession,
    paths: Sequence[Path],
    bootstrap: str,
    *,
    watch: Callable[[Sequence[PipelineRun]], None] = lambda runs: None,
    **options: bool,
) -> list[PipelineRun]:
    """Run until all pipelines have ended; ``watch`` is called repeatedly and may request a stop."""
    pipelines = [loaded.valid() for loaded in load_pipelines(paths)]
    runs = [PipelineRun(spark, pipeline, RunOptions(bootstrap, **options)) for pipeline in pipelines]
    with StopSignals() as signals:
        Supervisor(runs, signals).run(watch)
    for run in runs:
        for query in run.runs:
            assert query.error is None, query.error
    return runs


class RunningPipeline:
    """``ruslo pipeline run`` in its own process."""

    def __init__(self, log: Path, *arguments: str, environment: Mapping[str, str]) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ruslo.cli", "pipeline", "run", *arguments],
                stdout=subprocess.PIPE,
                stderr=output,
                env=dict(environment),
                start_new_session=True,
            )

    def wait_for(self, condition: Callable[[], bool], goal: str, within_s: float = 400) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert self.process.poll() is None, f"the pipeline ended:\n{self.log()}"
            assert time.monotonic() < deadline, f"not within {within_s} s: {goal}\n{self.log()}"
            time.sleep(0.2)

    def end(self, number: signal.Signals = signal.SIGTERM, within_s: float = 300) -> tuple[int, str]:
        """Return the exit code and the output."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=within_s)
        return self.process.returncode, output.decode()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
