"""Rules that several keys of a group must keep together, within the bounds its brokers set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ruslo.config.broker import BrokerConfig
from ruslo.config.validators import ConfigValue

# Keys bounded by group.FAMILY.min.REST and group.FAMILY.max.REST of the broker.
_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.assignment.interval.ms",
)


def broken_group_rules(broker: BrokerConfig, values: Mapping[str, ConfigValue]) -> Iterator[str]:
    """What is wrong with a group's effective settings; each sentence says what, why and what to do."""
    for name in _BOUNDED:
        family, _, rest = name.partition(".")
        low_key, high_key = f"group.{family}.min.{rest}", f"group.{family}.max.{rest}"
        low, high, value = broker.int(low_key), broker.int(high_key), _number(values, name)
        if not low <= value <= high:
            yield (
                f"{name}={value} is outside what the brokers allow ({low_key}={low}, {high_key}={high}): "
                f"use a number from {low} to {high}"
            )
    standby_key, limit_key = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if _number(values, standby_key) > broker.int(limit_key):
        yield (
            f"{standby_key}={_number(values, standby_key)} is above the brokers' {limit_key}="
            f"{broker.int(limit_key)}: lower it"
        )
    for family in ("consumer", "share", "streams"):
        heartbeat, session = f"{family}.heartbeat.interval.ms", f"{family}.session.timeout.ms"
        heartbeat_ms, session_ms = _number(values, heartbeat), _number(values, session)
        if session_ms <= heartbeat_ms:
            yield (
                f"{session}={session_ms} is not above {heartbeat}={heartbeat_ms}, "
                "so that members would be dropped between heartbeats: raise the first or lower the second"
            )


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
