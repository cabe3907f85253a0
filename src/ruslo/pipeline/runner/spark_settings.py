"""The settings of a Spark that pipelines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ruslo.model.errors import ConfigError
from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.session import is_session_setting

_DEFAULTS = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


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
