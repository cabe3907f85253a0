"""A setting of Kafka's clients, and how it is handled."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from ruslo.config.definition import LOW, READ_ONLY, ConfigKey, ConfigType, Required
from ruslo.config.validators import ConfigValue as ParsedValue
from ruslo.config.validators import Validator

ConfigValue: TypeAlias = str | int | float | bool | Sequence[str]
"""The value of a setting as users write it; Kafka's lists are sequences."""

# librdkafka's callbacks (oauth_cb, stats_cb, …) are settings too, of many signatures.
ClientConfigValue: TypeAlias = ConfigValue | Callable[..., object] | None


class Handling(enum.StrEnum):
    """How a setting is handled."""

    SAME = "librdkafka"
    TRANSLATED = "translated"
    OURS = "Ruslo"
    IGNORED = "no effect"
    REFUSED = "refused"


SAME, TRANSLATED, OURS, IGNORED, REFUSED = Handling


class Setting(NamedTuple):
    key: ConfigKey
    handling: Handling
    target: str
    """librdkafka's name of the setting."""

    def parse(self, value: ConfigValue) -> ParsedValue:
        """The typed and checked value; raises InvalidConfig."""
        return self.key.parse(as_text(value))


def setting(
    name: str,
    kind: ConfigType,
    default: ParsedValue | Required,
    validator: Validator | None,
    handling: Handling,
    *texts: str,
) -> Setting:
    """``texts`` ends with the documentation; librdkafka's name precedes it if it differs."""
    *target, doc = texts
    key = ConfigKey(name, kind, default, validator, LOW, READ_ONLY, doc)
    return Setting(key, handling, target[0] if target else name)


def as_text(value: ConfigValue) -> str:
    """The value as in a properties file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    return ",".join(value)
