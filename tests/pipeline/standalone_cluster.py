"""Starts a standalone Spark cluster on this machine: a master and workers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from ruslo.pipeline.java import find_java_home
from tests.pipeline.conftest import SHORT_LIVED_JAVA
from tests.support.network.ports import free_port

SPARK_HOME = Path(pyspark.__file__).parent
_OPENS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "sun.nio.ch")
)


class StandaloneCluster:
    """A Spark cluster whose workers have Python, but not the packages of this environment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"

    def start(self, workers: int) -> list[subprocess.Popen[bytes]]:
        self._launch(
            "master", "master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0"
        )
        self._wait_for("master", "I have been elected leader")
        found = []
        for number in range(workers):
            name = f"worker{number}"
            options = [
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(self._folder / name),
                "--webui-port",
                "0",
            ]
            found.append(self._launch(name, "worker.Worker", "--host", "127.0.0.1", *options, self.master))
        for number in range(workers):
            self._wait_for(f"worker{number}", "Successfully registered with master")
        return found

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """kill -9 a process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in reversed(self._processes):
            self.kill(process)

    def _launch(self, name: str, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        java = find_java_home()
        environment = {
            "PATH": "/usr/bin:/bin",
            "JAVA_HOME": str(java),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "RUSLO_PYTHON": str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"),
        }
        command = [
            f"{java}/bin/java", "-Xmx256m", *SHORT_LIVED_JAVA.split(), *_OPENS, "-cp", f"{SPARK_HOME}/jars/*",
            f"org.apache.spark.deploy.{main_class}", *arguments,
        ]  # fmt: skip
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )
        self._processes.append(process)
        return process

    def _wait_for(self, name: str, text: str, within_s: float = 120) -> None:
        deadline = time.monotonic() + within_s
        log = self._folder / f"{name}.log"
        while text not in log.read_text(errors="replace"):
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
            time.sleep(0.2)


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()
