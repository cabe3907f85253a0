"""Rules over several configs of a group, within the limits that its brokers set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ruslo.config.broker import BrokerConfig
from ruslo.config.keys.group import bounds
from ruslo.config.validators import ConfigValue


def broken_group_rules(broker: BrokerConfig, values: Mapping[str, ConfigValue]) -> Iterator[str]:
    """What is wrong with a group's effective configs; each sentence begins as Apache Kafka's."""
    for name in values:
        limits = bounds(name)
        if limits is None:
            continue
        low, high = map(broker.int, limits)
        value = _number(values, name)
        allowed = f"It is {value}. Use a number from {low} to {high}"
        if value < low:
            yield f"{name} must be greater than or equal to {limits[0]}={low}. {allowed}"
        if value > high:
            yield f"{name} must be less than or equal to {limits[1]}={high}. {allowed}"
    standby_key, limit_key = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if _number(values, standby_key) > broker.int(limit_key):
        limit = broker.int(limit_key)
        yield (
            f"{standby_key} must be less than or equal to {limit_key}={limit}. It is {values[standby_key]}. "
            "Lower it"
        )
    for family in ("consumer", "share", "streams"):
        heartbeat, session = f"{family}.heartbeat.interval.ms", f"{family}.session.timeout.ms"
        heartbeat_ms, session_ms = _number(values, heartbeat), _number(values, session)
        if session_ms <= heartbeat_ms:
            yield (
                f"{session} must be greater than {heartbeat}, or members would be removed between "
                f"heartbeats. They are {session_ms} and {heartbeat_ms}. Raise {session} or lower {heartbeat}"
            )


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
