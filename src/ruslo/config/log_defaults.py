"""From keys to a LogConfig: the broker's defaults, and a topic's overrides on top."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ruslo.config.definition import ConfigProblem, InvalidConfig
from ruslo.config.log_config import NO_LIMIT, LogConfig
from ruslo.config.tables import TOPIC
from ruslo.config.validators import ConfigValue

if TYPE_CHECKING:
    from ruslo.config.broker import BrokerConfig

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS

FIELD_OF_KEY: Final = {
    name: "record_validation" if name == "ruslo.record.validation" else name.replace(".", "_")
    for name in TOPIC.keys
}


def log_defaults(broker: BrokerConfig) -> LogConfig:
    """What the broker's own settings give to a topic without overrides."""
    # The fields' types follow from the keys' types; the table's own test holds the two together.
    fields: dict[str, Any] = {}
    for key in TOPIC:
        if key.synonyms:
            fields[FIELD_OF_KEY[key.name]] = _field_value(broker.get(key.synonyms[0]), key.name)
    fields["segment_ms"] = _first(broker, ("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))
    fields["segment_jitter_ms"] = _first(
        broker, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)
    )
    fields["flush_ms"] = _first(broker, ("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))
    retention_ms = _first(
        broker,
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    )
    fields["retention_ms"] = max(retention_ms, NO_LIMIT)
    return LogConfig(**fields)


def apply_topic_overrides(defaults: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Raises InvalidConfig on a value that cannot be used; unknown names are passed over, as in Kafka."""
    fields: dict[str, Any] = {}
    problems: list[ConfigProblem] = []
    for name, text in overrides.items():
        key = TOPIC.get(name)
        if key is None:
            continue
        try:
            fields[FIELD_OF_KEY[name]] = _field_value(key.parse(text), name)
        except InvalidConfig as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidConfig(*problems)
    return replace(defaults, **fields) if fields else defaults


def _first(broker: BrokerConfig, *candidates: tuple[str, int]) -> int:
    """The first of several keys that is set, in the unit of the last pair member; the last one always is."""
    for name, factor in candidates:
        value = broker.opt_int(name)
        if value is not None:
            return value * factor
    raise AssertionError(f"{candidates[-1][0]} has no default")


def _field_value(value: ConfigValue, name: str) -> ConfigValue | frozenset[str]:
    return frozenset(value) if name == "cleanup.policy" and isinstance(value, tuple) else value
