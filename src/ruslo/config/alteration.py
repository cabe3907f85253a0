"""AlterConfigs of topics, brokers, groups and client metrics subscriptions: validates changes and returns the
new overrides.

Every function returns all overrides of the resource and does not modify the old ones. An invalid change
raises KafkaError with the error code of Kafka; one invalid config rejects the whole change of its resource.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ruslo.config.broker import BrokerConfig
from ruslo.config.definition import LIST, ConfigKey, ConfigTable, InvalidConfig
from ruslo.config.dynamic import dynamic_key, dynamic_refusal
from ruslo.config.keys.broker import BROKER
from ruslo.config.keys.client_metrics import CLIENT_METRICS, INTERVAL_MS, MAX_INTERVAL_MS, MIN_INTERVAL_MS
from ruslo.config.keys.group import GROUP
from ruslo.config.log_config import TOPIC
from ruslo.config.rules.group import broken_group_rules
from ruslo.config.rules.topic import broken_topic_rules
from ruslo.model.errors import ErrorCode, KafkaError

# Kafka once stored the length of a value in 16 bits, and has kept the limit.
MAX_VALUE_CHARS = 32767


class AlterOp(enum.IntEnum):
    """The operations of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """A requested change; ``op`` is the number in the request."""

    name: str
    op: int
    value: str | None


def alter_topic(
    broker: BrokerConfig, current: Mapping[str, str], alterations: Sequence[Alteration]
) -> dict[str, str]:
    """Apply an incremental change to a topic."""
    return replace_topic(broker, current, _apply(TOPIC.get, current, alterations))


def replace_topic(
    broker: BrokerConfig, current: Mapping[str, str], new: Mapping[str, str | None]
) -> dict[str, str]:
    """Validate all new overrides of a topic (CreateTopics, AlterConfigs); ``current`` are the old ones."""
    overrides = _without_nulls(new, "topic")
    _require_known(TOPIC, overrides)
    _require_storable(overrides)
    try:
        effective = broker.log_config(overrides)
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    _refuse(broken_topic_rules(broker, current, effective))
    return overrides


def replace_broker(broker: BrokerConfig, new: Mapping[str, str | None], *, per_broker: bool) -> BrokerConfig:
    """The configuration of this broker with all new dynamic configs; raises KafkaError if it is invalid."""
    overrides = replace_broker_keys(new, per_broker=per_broker)
    try:
        if per_broker:
            return BrokerConfig(broker.static, broker.default_overrides, overrides)
        return BrokerConfig(broker.static, overrides, broker.broker_overrides)
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def alter_broker_keys(
    current: Mapping[str, str], alterations: Sequence[Alteration], *, per_broker: bool
) -> dict[str, str]:
    """Apply an incremental change to a broker's dynamic configs, and validate each config by itself."""
    return replace_broker_keys(_apply(dynamic_key, current, alterations), per_broker=per_broker)


def replace_broker_keys(new: Mapping[str, str | None], *, per_broker: bool) -> dict[str, str]:
    """Validate each of a broker's new dynamic configs by itself.

    A controller cannot do more: it does not know the property file of the broker. The error code is
    INVALID_REQUEST, as in Kafka (KAFKA-13609).
    """
    overrides = _without_nulls(new, "broker", ErrorCode.INVALID_REQUEST)
    for name, value in overrides.items():
        refusal = dynamic_refusal(name, per_broker=per_broker)
        if refusal is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, refusal)
        key = dynamic_key(name)
        try:
            if key is not None:
                key.parse(value)
        except InvalidConfig as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
    _require_storable(overrides)
    return overrides


def alter_group(
    broker: BrokerConfig, current: Mapping[str, str], alterations: Sequence[Alteration]
) -> dict[str, str]:
    """Apply an incremental change to a group."""
    return replace_group(broker, _apply(GROUP.get, current, alterations))


def replace_group(broker: BrokerConfig, new: Mapping[str, str | None]) -> dict[str, str]:
    """Validate all new overrides of a group."""
    overrides = _without_nulls(new, "group")
    _require_known(GROUP, overrides)
    _require_storable(overrides)
    values = {key.name: broker.get(key.synonyms[0]) for key in GROUP if key.synonyms}
    try:
        values.update({name: GROUP[name].parse(text) for name, text in overrides.items()})
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    _refuse(broken_group_rules(broker, values))
    return overrides


def alter_client_metrics(current: Mapping[str, str], alterations: Sequence[Alteration]) -> dict[str, str]:
    """Apply an incremental change to a client metrics subscription."""
    return replace_client_metrics(_apply(CLIENT_METRICS.get, current, alterations))


def replace_client_metrics(new: Mapping[str, str | None]) -> dict[str, str]:
    """Validate all new overrides of a client metrics subscription.

    Unknown names and intervals out of range are INVALID_REQUEST, as in Kafka.
    """
    overrides = _without_nulls(new, "client metrics subscription")
    _require_known(CLIENT_METRICS, overrides, ErrorCode.INVALID_REQUEST)
    _require_storable(overrides)
    try:
        values = {name: CLIENT_METRICS[name].parse(text) for name, text in overrides.items()}
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    interval_ms = values.get(INTERVAL_MS, MAX_INTERVAL_MS)
    assert isinstance(interval_ms, int)
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{INTERVAL_MS}={interval_ms} is out of range: use a number from {MIN_INTERVAL_MS} to "
            f"{MAX_INTERVAL_MS} (1 hour)",
        )
    return overrides


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """The config records that turn the old overrides into the new ones; the value None deletes."""
    written: list[tuple[str, str | None]] = [(n, v) for n, v in new.items() if old.get(n) != v]
    return [*written, *((name, None) for name in old if name not in new)]


def _apply(
    find: Callable[[str], ConfigKey | None], current: Mapping[str, str], alterations: Sequence[Alteration]
) -> dict[str, str | None]:
    names = [alteration.name for alteration in alterations]
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{repeated} is changed twice in one request: send one change per config",
        )
    result: dict[str, str | None] = dict(current)
    for name, op, value in alterations:
        if op == AlterOp.DELETE:
            result.pop(name, None)
            continue
        if op not in AlterOp.__members__.values():
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown operation {op} on {name}: use 0 to 3 (set, delete, append, subtract)",
            )
        if value is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{name} has no value: send one, or delete the config to restore its default",
            )
        result[name] = (
            value if op == AlterOp.SET else _edit_list(find(name), name, op, current.get(name), value)
        )
    return result


def _edit_list(key: ConfigKey | None, name: str, op: int, old: str | None, value: str) -> str:
    if key is None or key.type is not LIST:
        verb = "append to" if op == AlterOp.APPEND else "subtract from"
        why = "it is unknown" if key is None else "it is not a list"
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Cannot {verb} {name}, because {why}: set its whole value instead"
        )
    # Without an override, the list starts from the built-in default, as in Kafka.
    items = [item for item in (key.default_text or "" if old is None else old).split(",") if item]
    for item in value.split(","):
        if op == AlterOp.APPEND and item not in items:
            items.append(item)
        elif op == AlterOp.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _without_nulls(
    new: Mapping[str, str | None], resource: str, code: ErrorCode = ErrorCode.INVALID_CONFIG
) -> dict[str, str]:
    nulls = [name for name, value in new.items() if value is None]
    if nulls:
        raise KafkaError(
            code, f"{', '.join(nulls)} of the {resource} has no value: send one, or omit the config"
        )
    return {name: value for name, value in new.items() if value is not None}


def _require_known(
    table: ConfigTable, overrides: Iterable[str], code: ErrorCode = ErrorCode.INVALID_CONFIG
) -> None:
    for name in overrides:
        if name in table:
            continue
        nearest = table.nearest(name)
        hint = (
            f"did you mean {nearest}?"
            if nearest
            else f"see docs/configuration.md for the configs of a {table.resource}"
        )
        if nearest is None and table is TOPIC and name in BROKER:
            hint = "it is a broker config"
        raise KafkaError(code, f"Unknown {table.resource} config name: {name}; {hint}")


def _require_storable(overrides: Mapping[str, str]) -> None:
    for name, value in overrides.items():
        if len(value) > MAX_VALUE_CHARS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"The value of {name} has {len(value)} characters, more than {MAX_VALUE_CHARS}: shorten it",
            )


def _refuse(broken: Iterable[str]) -> None:
    reasons = list(broken)
    if reasons:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "\n".join(reasons))
