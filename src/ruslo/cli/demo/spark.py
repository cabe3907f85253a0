"""Runs the pipelines of the demo in a child process: ``ruslo pipeline run``."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Self

from ruslo.cli.demo.events import ORDERS, PAYMENTS
from ruslo.model.errors import ConfigError
from ruslo.model.extras import install_extra
from ruslo.model.topics import TopicPartition
from ruslo.runs.report import RunReport, read_report

RECEIPTS = "demo.receipts"
SALES = "demo.sales"
RESULTS = (RECEIPTS, SALES)
PIPELINES = ("receipts", "sales")
_STARTS = {ORDERS: "DEMO_ORDERS_START", PAYMENTS: "DEMO_PAYMENTS_START", RECEIPTS: "DEMO_RECEIPTS_START"}
_SETTINGS = ("spark.ui.enabled=false", "spark.driver.memory=1g")
_STOP_TIMEOUT_S = 180.0


def why_no_spark() -> str | None:
    """Why Spark cannot run, and the fix; None if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return f"Spark is not installed. Install it: {install_extra('spark')}"
    from ruslo.pipeline.java import find_java_home

    try:
        find_java_home()
    except ConfigError as error:
        return str(error)
    return None


class DemoSpark:
    """A context manager that starts the process, and kills it at the end if it still runs."""

    def __init__(self, folder: Path, bootstrap: str, starts: Mapping[TopicPartition, int]) -> None:
        self._folder = folder
        self._log = folder / "spark.log"
        self._command = [sys.executable, "-m", "ruslo.cli", "pipeline", "run"]
        self._command += [str(folder / f"{name}.yaml") for name in PIPELINES]
        self._command += ["-b", bootstrap, "--master", "local[2]"]
        self._command += [word for setting in _SETTINGS for word in ("--conf", setting)]
        self._environment = {**os.environ, **_start_variables(starts)}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        for name in PIPELINES:
            file = resources.files("ruslo.cli.demo.pipelines") / f"{name}.yaml"
            (self._folder / f"{name}.yaml").write_text(file.read_text())
        with self._log.open("wb") as log:
            # Keep Ctrl-C from the process: the demo stops it after the last results.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._kill()

    def stop(self) -> None:
        """Stop after the current batch. A batch that takes too long is killed; its transaction is aborted."""
        assert self._process is not None, "it was started"
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @property
    def has_ended(self) -> bool:
        """True if the process has exited, which means that it failed."""
        return self._process is not None and self._process.poll() is not None

    def reports(self) -> list[RunReport]:
        """The state of the pipelines; empty while Spark starts."""
        found = (read_report(self._folder / "checkpoints" / name / ".ruslo") for name in PIPELINES)
        return [report for report in found if report is not None]

    @property
    def batches(self) -> int:
        return sum(query.batches for report in self.reports() for query in report.queries)

    def log_tail(self) -> str:
        """The last lines of the log."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return "\n".join(lines[-8:])


def _start_variables(starts: Mapping[TopicPartition, int]) -> dict[str, str]:
    """Start offsets of the sources: the ends of the topics when the demo started."""
    offsets: dict[str, dict[str, int]] = {topic: {} for topic in _STARTS}
    for partition, offset in starts.items():
        if partition.topic in offsets:
            offsets[partition.topic][str(partition.partition)] = offset
    return {_STARTS[topic]: json.dumps({topic: by_partition}) for topic, by_partition in offsets.items()}
