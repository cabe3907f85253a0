"""A Spark session that is set up for Ruslo: ``spark = new_session("orders")``."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ruslo.model.errors import ConfigError
from ruslo.model.extras import install_extra
from ruslo.pipeline.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS: Final[Mapping[str, str]] = {
    # Over TCP each Python task waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows pass between Spark and Python in pieces of this size; with its default of 64 KB reading a topic
    # takes 15 % more of the processor.
    "spark.buffer.size": "1048576",
    # Spark refuses sources with option pushFilters otherwise.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Times of records are moments, the same ones wherever the job runs.
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL_CHECKPOINTS: Final[Mapping[str, str]] = {
    # The default manager forks a process for each file that it writes to a local file system.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_NUMBA_CACHE: Final = "NUMBA_CACHE_DIR"
_JAVA_EXCEPTION: Final = re.compile(r":?\s*[\w.]+(?:Exception|Error): ")
_CONNECT_PORT: Final = 15002
"""Spark's own default."""


def new_session(
    app_name: str, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark (or join the session of this process) with ``format("ruslo")`` registered.

    ``config`` are Spark's own settings and win over the defaults. ``master`` is any of Spark's, or a
    Spark Connect address, ``sc://host:port``.
    """
    os.environ.setdefault(_NUMBA_CACHE, str(numba_cache_dir()))
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(f"Spark is not installed ({error}): {install_extra('spark')}") from error
    from ruslo.pipeline.registration import register

    builder = SparkSession.builder.appName(app_name)
    if is_connect_address(master):
        _check_connect(master)
        builder = builder.remote(master)
    else:
        _prepare_environment(master)
        builder = builder.master(master)
    for key, value in {**_defaults(master), **(config or {})}.items():
        builder = builder.config(key, value)
    spark = _start(builder, master)
    register(spark)
    return spark


def _start(builder: SparkSession.Builder, master: str) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise ConfigError(
            f"Spark did not start on {master}: {_first_reason(error)}. Look at what Java printed above, and "
            "check the master and Spark's settings (spark.*); 'ruslo doctor' checks the machine"
        ) from error


def _first_reason(error: Exception) -> str:
    """The line of a Java trace, or of a message, that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    named = causes[-1:] or [line for line in lines if _JAVA_EXCEPTION.match(line)] or lines or [repr(error)]
    return named[0].removeprefix("Caused by:").removeprefix(":").strip().rstrip(".")


def _check_connect(address: str) -> None:
    """Spark's client would try an address where nobody listens for minutes, and say nothing."""
    place = urlsplit(address)
    host, port = place.hostname or "", place.port or _CONNECT_PORT
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise ConfigError(f"no Spark Connect server answers at {address}: {error}") from error
    if find_spec("grpc") is None or find_spec("grpc_status") is None:
        raise ConfigError("Spark Connect needs more packages than Spark: pip install 'pyspark[connect]'")


def _prepare_environment(master: str) -> None:
    """Spark's launcher reads these from the environment, before any of its settings."""
    os.environ["JAVA_HOME"] = str(find_java_home())
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        # An environment packed for the executors lies elsewhere than ours, and is named there.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Names of the driver's host need not resolve on a laptop; the loopback always does.
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _defaults(master: str) -> dict[str, str]:
    settings = dict(_SETTINGS)
    if is_connect_address(master):
        return {name: value for name, value in settings.items() if is_session_setting(name)}
    settings["spark.executorEnv." + _NUMBA_CACHE] = os.environ[_NUMBA_CACHE]
    if is_local(master) or master.startswith("spark://"):
        settings.update(_LOCAL_CHECKPOINTS)
    return settings


def is_connect_address(master: str) -> bool:
    return master.startswith("sc://")


def is_session_setting(name: str) -> bool:
    """Whether a client of Spark Connect may set it; the rest is what its server was started with."""
    return name.startswith("spark.sql.") and name != "spark.sql.warehouse.dir"


def is_local(master: str) -> bool:
    return master.startswith("local")


def numba_cache_dir() -> Path:
    """Where compiled code is kept between runs: the user's cache, or a temporary folder of the user's own."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "ruslo" / "numba"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass  # a service account often has no home it may write to; the temporary folder serves as well
    import tempfile

    return Path(tempfile.gettempdir()) / f"ruslo-numba-{os.getuid()}"
