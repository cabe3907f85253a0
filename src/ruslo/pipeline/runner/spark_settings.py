"""The Spark that pipelines share: its settings, and a small one for examples and the analysis of queries."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.errors import ConfigError
from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.session import is_session_setting, new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_SETTINGS = {
    "spark.ui.enabled": "false",
    # Examples have a few rows; more partitions would be empty tasks.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
}
_PIPELINE_SETTINGS = ("spark.jars", "spark.jars.packages", "spark.ui.showConsoleProgress", "spark.log.level")
"""The settings of pipelines that apply here: memory and executors are for production."""


def shared_settings(pipelines: Sequence[Pipeline], given: Mapping[str, str]) -> dict[str, str]:
    """The settings of the pipelines, overridden by those of the command line."""
    settings = dict(_DEFAULTS)
    set_by: dict[str, tuple[str, str]] = {}
    for pipeline in pipelines:
        for key, value in pipeline.resources.context_settings().items():
            if key in given:
                continue
            first = set_by.setdefault(key, (value, pipeline.name))
            if first[0] != value:
                raise ConfigError(
                    f"{first[1]} sets {key}={first[0]} and {pipeline.name} sets {value}, so they cannot "
                    f"share one Spark: run them separately, or override the setting with --conf {key}=…"
                )
            settings[key] = value
    return settings | dict(given)


class ConnectSettings(NamedTuple):
    kept: dict[str, str]
    left_out: list[str]
    """Requested settings that only the start of the server can set."""


def settings_over_connect(pipelines: Sequence[Pipeline], given: Mapping[str, str]) -> ConnectSettings:
    wanted = shared_settings(pipelines, given)
    kept = {name: value for name, value in wanted.items() if is_session_setting(name)}
    return ConnectSettings(kept, sorted(wanted.keys() - kept.keys() - _DEFAULTS.keys()))


@contextlib.contextmanager
def local_spark(name: str, pipelines: Sequence[Pipeline]) -> Iterator[SparkSession]:
    """The active session of this process, or a new one that is stopped afterwards."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    wanted = shared_settings(pipelines, {})
    settings = _SETTINGS | {key: value for key, value in wanted.items() if key in _PIPELINE_SETTINGS}
    with tempfile.TemporaryDirectory(prefix="ruslo-spark-", ignore_cleanup_errors=True) as folder:
        folders = {"spark.sql.warehouse.dir": folder, "spark.local.dir": folder}
        spark = new_session(name, "local[2]", settings | folders)
        try:
            yield spark
        finally:
            spark.stop()
