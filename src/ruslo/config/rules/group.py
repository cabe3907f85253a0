"""Rules over several configs of a group, within the limits that its brokers set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ruslo.config.broker import BrokerConfig
from ruslo.config.keys.group import bounds
from ruslo.config.validators import ConfigValue


def broken_group_rules(broker: BrokerConfig, values: Mapping[str, ConfigValue]) -> Iterator[str]:
    """What is wrong with a group's effective configs: each sentence says what, why and the fix."""
    for name in values:
        limits = bounds(name)
        if limits is None:
            continue
        low, high = map(broker.int, limits)
        if not low <= _number(values, name) <= high:
            yield (
                f"{name}={values[name]} is outside the limits of the brokers ({limits[0]}={low}, "
                f"{limits[1]}={high}): use a number from {low} to {high}"
            )
    standby_key, limit_key = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if _number(values, standby_key) > broker.int(limit_key):
        yield (
            f"{standby_key}={values[standby_key]} is above {limit_key}={broker.int(limit_key)} of the "
            f"brokers: lower {standby_key}"
        )
    for family in ("consumer", "share", "streams"):
        heartbeat, session = f"{family}.heartbeat.interval.ms", f"{family}.session.timeout.ms"
        heartbeat_ms, session_ms = _number(values, heartbeat), _number(values, session)
        if session_ms <= heartbeat_ms:
            yield (
                f"{session}={session_ms} is not above {heartbeat}={heartbeat_ms}, so members would be "
                f"removed between heartbeats: raise {session} or lower {heartbeat}"
            )


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
