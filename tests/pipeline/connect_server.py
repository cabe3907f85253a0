"""Starts a real Spark Connect server on this machine, like pyspark's own script."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ruslo.pipeline.cache_folder import cache_folder
from ruslo.pipeline.java import find_java_home
from tests.pipeline.conftest import SPARK_TEST_CONFIG
from tests.pipeline.standalone_cluster import SPARK_HOME
from tests.support.network.ports import free_port

_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SETTINGS = {
    **SPARK_TEST_CONFIG,
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
}


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Yields the server's address, ``sc://…``. The server has the packages of this environment."""
    port = free_port()
    settings = {
        **_SETTINGS,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--class", _MAIN, "--master", "local[2]"]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "NUMBA_CACHE_DIR": str(cache_folder("numba")),
    }
    log = folder / "connect-server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            env=environment,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
        )
    try:
        _wait_for(port, process, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path, within_s: float = 300) -> None:
    deadline = time.monotonic() + within_s
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            return
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)
