"""Starts a Spark session configured for Ruslo: ``spark = new_session("orders")``."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ruslo.model.errors import ConfigError
from ruslo.model.extras import install_extra
from ruslo.pipeline.cache_folder import cache_folder
from ruslo.pipeline.class_archive import DRIVER_OPTIONS, java_options
from ruslo.pipeline.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS: Final[Mapping[str, str]] = {
    # Over TCP each Python task waits 40 ms for a delayed ACK.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The buffer between Spark and Python. With the default of 64 KB, reading a topic takes 15 % more CPU.
    "spark.buffer.size": "1048576",
    # Required by option pushFilters.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Record timestamps must not depend on where the job runs.
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL_CHECKPOINTS: Final[Mapping[str, str]] = {
    # The default manager forks a process for each file it writes to a local file system.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
_NUMBA_CACHE: Final = "NUMBA_CACHE_DIR"
_JAVA_EXCEPTION: Final = re.compile(r":?\s*[\w.]+(?:Exception|Error): ")
_CONNECT_PORT: Final = 15002
"""Spark's default port."""


def new_session(
    app_name: str, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or use the session of this process, with ``format("ruslo")`` registered.

    ``config`` are Spark settings, which override the defaults. ``master`` is any Spark master, or a Spark
    Connect address, ``sc://host:port``.
    """
    os.environ.setdefault(_NUMBA_CACHE, str(cache_folder("numba")))
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
        config = _with_class_archive(config or {})
    for key, value in {**_defaults(master), **(config or {})}.items():
        builder = builder.config(key, value)
    spark = _start(builder, master)
    register(spark)
    return spark


def _with_class_archive(config: Mapping[str, str]) -> dict[str, str]:
    given = config.get(DRIVER_OPTIONS, "")
    # The JVM that builds the archive runs while it does not exist.
    return {**config, DRIVER_OPTIONS: f"{java_options()} {given}".strip()}


def _start(builder: SparkSession.Builder, master: str) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise ConfigError(
            f"Spark did not start on {master}: {_first_reason(error)}. Read Java's output above, and check "
            "the master and the Spark settings (spark.*); 'ruslo doctor' checks the machine"
        ) from error


def _first_reason(error: Exception) -> str:
    """The line of a Java stack trace, or of a message, that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    named = causes[-1:] or [line for line in lines if _JAVA_EXCEPTION.match(line)] or lines or [repr(error)]
    return named[0].removeprefix("Caused by:").removeprefix(":").strip().rstrip(".")


def _check_connect(address: str) -> None:
    """Spark's client would retry an unreachable address for minutes without a message."""
    url = urlsplit(address)
    host, port = url.hostname or "", url.port or _CONNECT_PORT
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise ConfigError(
            f"cannot connect to a Spark Connect server at {address} ({error}): check the address"
        ) from error
    if find_spec("grpc") is None or find_spec("grpc_status") is None:
        raise ConfigError("Spark Connect needs more packages: run pip install 'pyspark[connect]'")


def _prepare_environment(master: str) -> None:
    """Set what Spark's launcher reads from the environment before any of its settings."""
    os.environ["JAVA_HOME"] = str(find_java_home())
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        # An environment packed for executors has set its own Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # A laptop's host name may not resolve; the loopback address always works.
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
    """Whether a Spark Connect client may set it; other settings belong to the server's start."""
    return name.startswith("spark.sql.") and name != "spark.sql.warehouse.dir"


def is_local(master: str) -> bool:
    return master.startswith("local")
