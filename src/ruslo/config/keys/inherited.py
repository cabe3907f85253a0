"""Rows of topics and groups that take type, default and doc from the broker's row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ruslo.config.definition import CLUSTER_WIDE, MEDIUM, REQUIRED, ConfigKey
from ruslo.config.keys.broker import BROKER
from ruslo.config.validators import ConfigValue, Validator

_MILLISECONDS: Final = {".minutes": 60_000, ".hours": 3_600_000}


def inherited(name: str, broker_name: str, validator: Validator | None = None) -> ConfigKey:
    """The row of a property whose default is the broker property ``broker_name`` or one of its synonyms.

    ``validator`` is given where a topic or group accepts other values than its broker's property file.
    """
    source = BROKER[broker_name]
    synonyms = source.synonyms or (broker_name,)
    return ConfigKey(
        name,
        source.type,
        first_set(synonyms, _default),
        validator or source.validator,
        MEDIUM,
        CLUSTER_WIDE,
        source.doc,
        synonyms,
        has_effect=source.has_effect,
    )


def first_set(synonyms: tuple[str, ...], value_of: Callable[[str], ConfigValue]) -> ConfigValue:
    """The value of the first synonym that has one; minutes and hours become milliseconds."""
    for synonym in synonyms:
        value = value_of(synonym)
        if value is not None:
            factor = next((ms for unit, ms in _MILLISECONDS.items() if synonym.endswith(unit)), 1)
            return value * factor if factor > 1 and isinstance(value, int) else value
    return None


def _default(broker_name: str) -> ConfigValue:
    default = BROKER[broker_name].default
    assert default is not REQUIRED, broker_name
    return default
