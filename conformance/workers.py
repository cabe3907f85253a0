"""JVMs that run test classes, several at a time."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from conformance.jars import FOLDER, Target, classpath
from conformance.port_ranges import PORTS_PER_WORKER, lock_port_range
from conformance.test_sets import by_class
from tests.support.tools.kafka_jars import LOG4J_CONFIG

CLASSES_PER_JVM = 4
"""Few enough to keep all workers busy until the end, since the duration of a class is not known."""
JAVA_OPTIONS = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_CONSOLE = "org.junit.platform.console.ConsoleLauncher"


@dataclass(frozen=True)
class Session:
    """One run of tests."""

    target: Target
    folder: Path
    """For results, logs, and the files of the clusters whose tests failed."""
    jobs: int = 1
    timeout_s: int = 180
    """A test that takes longer fails."""
    all_types: bool = False
    """Repeat tests with combined nodes that run with separate controllers anyway."""


def run_tests(session: Session, selectors: Sequence[str]) -> list[Path]:
    """Run the tests; returns the files with their results."""
    path = classpath(session.target)
    for folder in ("clusters", "tmp"):
        (session.folder / folder).mkdir(parents=True, exist_ok=True)
    groups = list(by_class(selectors).values())
    # Small sets are dealt out evenly.
    size = max(1, min(CLASSES_PER_JVM, -(-len(groups) // session.jobs)))
    running: list[subprocess.Popen[bytes]] = []

    def run_batch(number: int, batch: Sequence[str]) -> Path:
        results = session.folder / f"{session.target}-{number}.tsv"
        for old in session.folder.glob(f"{results.name}*"):
            old.unlink()
        with lock_port_range() as port, results.with_suffix(".log").open("wb") as log:
            command = _command(session, path, results, port, batch)
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            running.append(process)
            process.wait()
        return results

    starts = range(0, len(groups), size)
    batches = [[each for group in groups[start : start + size] for each in group] for start in starts]
    with ThreadPoolExecutor(session.jobs) as pool:
        try:
            return list(pool.map(run_batch, range(len(batches)), batches))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.kill()
            raise


def _command(session: Session, path: str, results: Path, port: int, selectors: Sequence[str]) -> list[str]:
    properties = {
        "log4j2.configurationFile": LOG4J_CONFIG,
        "ruslo.log.level": "ERROR",
        "java.io.tmpdir": session.folder / "tmp",
        "conformance.results": results,
        "conformance.clusters": session.folder / "clusters",
        "conformance.python": sys.executable,
        "conformance.forker": FOLDER / "node_forker.py",
        "conformance.first.port": port,
        "conformance.ports": PORTS_PER_WORKER,
        "conformance.all.types": str(session.all_types).lower(),
    }
    launcher = ["execute", "--disable-banner", "--disable-ansi-colors", "--details=none"]
    configs = {
        "junit.jupiter.execution.timeout.default": f"{session.timeout_s}s",
        "junit.jupiter.extensions.autodetection.enabled": "true",
    }
    for key, value in configs.items():
        launcher += ["--config", f"{key}={value}"]
    for name, group in by_class(selectors).items():
        launcher += ["--select-class", name]
        for selector in group:
            method = selector.partition("#")[2] or ".*"
            launcher += ["--include-methodname", f"{re.escape(name)}#{method}"]
    options = [*JAVA_OPTIONS, *(f"-D{key}={value}" for key, value in properties.items())]
    return ["java", *options, "-cp", path, _CONSOLE, *launcher]
