"""DescribeConfigs: the value of each config, and the layers that it comes from.

The layers, strongest first:

1. the override of the topic, the group or the client metrics subscription
2. the dynamic config of the broker
3. the dynamic default of all brokers
4. the property file
5. the built-in default

All synonyms of a config are looked up in one layer before the next layer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from ruslo.config.broker import BrokerConfig
from ruslo.config.definition import ConfigKey, ConfigTable, Dynamic, InvalidConfig
from ruslo.config.dynamic import dynamic_key
from ruslo.config.keys.broker import BROKER
from ruslo.config.keys.client_metrics import CLIENT_METRICS
from ruslo.config.keys.group import GROUP
from ruslo.config.log_config import TOPIC, field_of


class ConfigSource(enum.IntEnum):
    """The numbers in DescribeConfigs responses."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """The value of a config in one layer, under its name there. A sensitive value is None."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A config as DescribeConfigs returns it. ``type`` is 0 for an unknown name."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: int
    doc: str | None
    synonyms: tuple[Synonym, ...]


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The configs of a topic: those in ``names``, or all if ``names`` is None or empty."""
    return list(
        _describe_overridable(
            TOPIC, ConfigSource.DYNAMIC_TOPIC_CONFIG, broker, overrides, names, _topic_default
        )
    )


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The configs of a group."""
    return list(
        _describe_overridable(
            GROUP, ConfigSource.DYNAMIC_GROUP_CONFIG, broker, overrides, names, _group_default
        )
    )


def describe_client_metrics(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The configs of a client metrics subscription."""
    return list(
        _describe_overridable(
            CLIENT_METRICS,
            ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
            broker,
            overrides,
            names,
            lambda _, key: key.default_text,
        )
    )


def describe_broker(broker: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The configs of this broker, including unknown ones that are set."""
    given = {**broker.static, **broker.default_overrides, **broker.broker_overrides}
    unknown = [name for name in given if name not in BROKER]
    return [
        _broker_entry(name, _broker_value(broker, name, given), _broker_layers(broker, name))
        for name in [*(key.name for key in BROKER if not key.internal or key.name in given), *unknown]
        if not names or name in names
    ]


def describe_broker_defaults(broker: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The dynamic configs of all brokers: the broker resource with an empty name."""
    wanted = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _broker_entry(name, value, tuple(s for s in _broker_layers(broker, name) if s.source is wanted))
        for name, value in broker.default_overrides.items()
        if not names or name in names
    ]


def _describe_overridable(
    table: ConfigTable,
    own_source: ConfigSource,
    broker: BrokerConfig,
    overrides: Mapping[str, str],
    names: Collection[str] | None,
    default_of: Callable[[BrokerConfig, ConfigKey], str | None],
) -> Iterator[ConfigEntry]:
    shown_keys = [key.name for key in table if not key.internal or key.name in overrides]
    for name in [*shown_keys, *(name for name in overrides if name not in table)]:
        if names and name not in names:
            continue
        key = table.get(name)
        sensitive = key is None or key.sensitive
        layers = _inherited_layers(broker, key, sensitive) if key else ()
        if name in overrides:
            shown = None if sensitive else _normalised(key, overrides[name])
            layers = (Synonym(name, shown, own_source), *layers)
        else:
            assert key is not None
            shown = None if sensitive else default_of(broker, key)
        yield ConfigEntry(
            name=name,
            value=shown,
            source=layers[0].source if layers else ConfigSource.DEFAULT_CONFIG,
            read_only=False,
            sensitive=sensitive,
            type=key.type if key else 0,
            doc=key.doc if key else None,
            synonyms=layers,
        )


def _inherited_layers(broker: BrokerConfig, key: ConfigKey, sensitive: bool) -> tuple[Synonym, ...]:
    if key.synonyms:
        first = key.synonyms[0]
        return _layers(broker, first, BROKER[first].synonyms or (first,), sensitive)
    if key.name in GROUP:
        # Other configs without a broker config have no layers; group configs show their default.
        return (Synonym(key.name, None if sensitive else key.default_text, ConfigSource.DEFAULT_CONFIG),)
    return ()


def _topic_default(broker: BrokerConfig, key: ConfigKey) -> str | None:
    return key.format(getattr(broker.default_log_config, field_of(key.name)))


def _group_default(broker: BrokerConfig, key: ConfigKey) -> str | None:
    return key.format(broker.get(key.synonyms[0])) if key.synonyms else key.default_text


def _normalised(key: ConfigKey | None, text: str) -> str | None:
    try:
        return text if key is None else key.format(key.parse(text))
    except InvalidConfig:
        # The value was stored before its validator became stricter. Return it unchanged.
        return text


def _broker_value(broker: BrokerConfig, name: str, given: Mapping[str, str]) -> str | None:
    return BROKER[name].format(broker.get(name)) if name in BROKER else given[name]


def _broker_layers(broker: BrokerConfig, name: str) -> tuple[Synonym, ...]:
    key = dynamic_key(name)
    if key is None:
        names: tuple[str, ...] = (name,)
    elif key.name != name:
        names = (name, key.name)  # the value of one listener, then the common one
    else:
        names = key.synonyms or (name,)
    return _layers(broker, name, names, key is None or key.sensitive)


def _broker_entry(name: str, value: str | None, layers: tuple[Synonym, ...]) -> ConfigEntry:
    key = dynamic_key(name)
    sensitive = key is None or key.sensitive
    return ConfigEntry(
        name=name,
        value=None if sensitive else value,
        source=layers[0].source if layers else ConfigSource.DEFAULT_CONFIG,
        read_only=key is None or key.name != name or key.dynamic is Dynamic.READ_ONLY,
        sensitive=sensitive,
        type=key.type if key else 0,
        doc=key.doc if key and key.name == name else None,
        synonyms=layers,
    )


def _layers(broker: BrokerConfig, name: str, names: tuple[str, ...], sensitive: bool) -> tuple[Synonym, ...]:
    found: list[Synonym] = []
    for layer, source in (
        (broker.broker_overrides, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (broker.default_overrides, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (broker.static_with_node_id, ConfigSource.STATIC_BROKER_CONFIG),
    ):
        found.extend(Synonym(n, None if sensitive else layer[n], source) for n in names if n in layer)
    for n in names:
        default = BROKER[n].default_text if n in BROKER else None
        if default is not None:
            found.append(Synonym(n, None if sensitive else default, ConfigSource.DEFAULT_CONFIG))
    # Drop stronger synonyms: they are not set under this name.
    start = next((i for i, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[start:])
