"""Parses the text of Spark options. Errors name the option, its value and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.durations import duration_ms
from ruslo.pipeline.suggestions import nearest

T = TypeVar("T")

_SIZE: Final = re.compile(r"(\d+)\s*(b|k|kb|m|mb|g|gb|t|tb)?\Z", re.IGNORECASE)
_SIZE_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class OptionValues:
    """The options of one query. Names are case-insensitive, as in Spark."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}

    def refuse_unknown(self, known: Iterable[str], what: str) -> None:
        """Raise for the first option that is not ``known``, and suggest a similar name."""
        names = {name.lower() for name in known}
        for name in self._values:
            if name not in names and not name.startswith("kafka."):
                raise ConfigError(f"{what} has no option {name!r}. {nearest(name, known)}")

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        value = self.text(name)
        if value is None:
            return default
        for choice in allowed:
            if value.lower() == choice.lower():
                return choice
        raise ConfigError(f"{name}={value}: use {' or '.join(allowed)}")

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def number(self, name: str, default: int, least: int = 0) -> int:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise ConfigError(f"{name}={value}: give a whole number") from None
        if number < least:
            raise ConfigError(f"{name}={value}: give {least} or more")
        return number

    def optional_number(self, name: str, least: int = 1) -> int | None:
        return None if name not in self else self.number(name, least, least)

    def size_bytes(self, name: str, default: int | None) -> int | None:
        value = self.text(name)
        return default if value is None else parse_size(name, value)

    def duration_ms(self, name: str, default: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        try:
            return duration_ms(value)
        except ValueError:
            raise ConfigError(
                f"{name}={value}: give a number with a unit, such as 500ms, 30s, 15m or 1h"
            ) from None

    def names(self, name: str) -> tuple[str, ...] | None:
        """A comma-separated list."""
        value = self.text(name)
        if value is None:
            return None
        found = tuple(part.strip() for part in value.split(",") if part.strip())
        if not found:
            raise ConfigError(f"{name} is empty: give one name, or several separated by commas")
        return found

    def by_topic(self, name: str) -> dict[str, int]:
        """``{"orders": 1000}``; sizes may be written as text with a unit."""
        value = self.text(name)
        limits = {} if value is None else decode_json(name, value, dict[str, object], '{"orders": 1000}')
        return {topic: parse_size(f"{name} of {topic}", str(limit)) for topic, limit in limits.items()}

    def client_properties(self) -> dict[str, str]:
        """The ``kafka.`` options, without that prefix."""
        prefix = "kafka."
        return {
            name.removeprefix(prefix): value
            for name, value in self._values.items()
            if name.startswith(prefix)
        }


def parse_size(name: str, value: str) -> int:
    found = _SIZE.match(value.strip())
    if found is None or int(found[1]) == 0:
        raise ConfigError(f"{name}={value}: give a number above 0, such as 1000, 64m or 1g")
    unit = (found[2] or "").lower()
    return int(found[1]) * _SIZE_UNITS[unit[:1]]


def decode_json(name: str, value: str, kind: type[T], example: str) -> T:
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{name}={value}: write it as JSON, such as {example} ({error})") from None


def parse_by_partition(name: str, value: str) -> dict[TopicPartition, int]:
    """``{"orders": {"0": 23, "1": -2}}``, as Spark's Kafka connector writes offsets and times."""
    decoded = decode_json(name, value, dict[str, dict[int, int]], '{"orders": {"0": 23, "1": 45}}')
    return {
        TopicPartition(topic, partition): number
        for topic, partitions in decoded.items()
        for partition, number in partitions.items()
    }
