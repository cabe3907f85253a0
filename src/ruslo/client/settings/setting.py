"""One setting of Kafka's clients, and what becomes of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from ruslo.config.definition import LOW, READ_ONLY, ConfigKey, ConfigType, Required
from ruslo.config.validators import ConfigValue as ParsedValue
from ruslo.config.validators import Validator

ConfigValue: TypeAlias = str | int | float | bool | Sequence[str]
"""A setting as users write it; a sequence stands for Kafka's lists."""

# librdkafka's callbacks (oauth_cb, stats_cb, …) are settings too, of many signatures.
ClientConfigValue: TypeAlias = ConfigValue | Callable[..., object] | None


class Fate(enum.StrEnum):
    """What becomes of a setting."""

    SAME = "librdkafka"
    TRANSLATED = "translated"
    OURS = "Ruslo"
    IGNORED = "no effect"
    REFUSED = "refused"


SAME, TRANSLATED, OURS, IGNORED, REFUSED = Fate


class Setting(NamedTuple):
    key: ConfigKey
    fate: Fate
    target: str
    """librdkafka's name, where the value goes there as it is."""

    def parse(self, value: ConfigValue) -> ParsedValue:
        """The typed and checked value; raises InvalidConfig."""
        return self.key.parse(as_text(value))


def setting(
    name: str,
    kind: ConfigType,
    default: ParsedValue | Required,
    validator: Validator | None,
    fate: Fate,
    *texts: str,
) -> Setting:
    """``texts`` are what it does, after librdkafka's name if that differs."""
    *target, doc = texts
    key = ConfigKey(name, kind, default, validator, LOW, READ_ONLY, doc)
    return Setting(key, fate, target[0] if target else name)


def as_text(value: ConfigValue) -> str:
    """As it would stand in a property file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    return ",".join(value)
