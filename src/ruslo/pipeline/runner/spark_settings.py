"""The settings of a Spark that several pipelines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ruslo.model.errors import ConfigError
from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.session import is_session_setting

_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def shared_settings(pipelines: Sequence[Pipeline], given: Mapping[str, str]) -> dict[str, str]:
    """What the pipelines ask for, and what the command line says, which wins."""
    settings = dict(_DEFAULTS)
    asked_by: dict[str, tuple[str, str]] = {}
    for pipeline in pipelines:
        for key, value in pipeline.resources.context_settings().items():
            if key in given:
                continue
            before = asked_by.setdefault(key, (value, pipeline.name))
            if before[0] != value:
                raise ConfigError(
                    f"{before[1]} wants {key}={before[0]} and {pipeline.name} wants {value}: they cannot "
                    f"share one Spark. Run them apart, or decide with --conf {key}=…"
                )
            settings[key] = value
    return settings | dict(given)


class ConnectSettings(NamedTuple):
    kept: dict[str, str]
    left_out: list[str]
    """What somebody asked for and only the one who starts the server can set."""


def settings_over_connect(pipelines: Sequence[Pipeline], given: Mapping[str, str]) -> ConnectSettings:
    asked = shared_settings(pipelines, given)
    kept = {name: value for name, value in asked.items() if is_session_setting(name)}
    return ConnectSettings(kept, sorted(asked.keys() - kept.keys() - _DEFAULTS.keys()))
