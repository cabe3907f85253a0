"""Which broker configs can change while the broker runs, and at which level (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ruslo.config.definition import ConfigKey, Dynamic, InvalidConfig, base_name
from ruslo.config.keys.broker import BROKER, BROKER_DYNAMIC_ONLY

# Reloaded together with their listener, so they are accepted only as listener.name.NAME.KEY.
_ONLY_PER_LISTENER: Final = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")
# The only listener.name.NAME.KEY configs that can be set for all brokers.
_CLUSTER_WIDE_PER_LISTENER: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")


def fixed_listener_keys(names: Iterable[str], listeners: Iterable[str]) -> list[str]:
    """The configs of these listeners that an open listener does not follow, such as its users and mechanisms.

    As in Kafka, only its certificates and its connection limits can change.
    """
    prefixes = tuple(f"listener.name.{listener.lower()}." for listener in listeners)
    return sorted(
        name
        for name in names
        if name.startswith(prefixes)
        and not base_name(name).startswith(_ONLY_PER_LISTENER)
        and base_name(name) not in _CLUSTER_WIDE_PER_LISTENER
    )


def dynamic_key(name: str) -> ConfigKey | None:
    """The row behind a dynamic config; None for a name that only a plug-in may know."""
    return BROKER.get(base_name(name)) or BROKER_DYNAMIC_ONLY.get(name)


def dynamic_refusal(name: str, *, per_broker: bool) -> str | None:
    """Why a config cannot be set dynamically at this level, and the fix; None if it can."""
    base = base_name(name)
    key = dynamic_key(name)
    if base == name:
        if key is not None and key.dynamic is Dynamic.READ_ONLY:
            return (
                f"Cannot update these configs dynamically: [{name}]. Set it in the property file and restart "
                "the broker"
            )
        if name.startswith(_ONLY_PER_LISTENER):
            return f"{name} can be set only for one listener: use listener.name.NAME.{name}"
        cluster_wide = key is None or key.dynamic is Dynamic.CLUSTER_WIDE
    else:
        cluster_wide = base in _CLUSTER_WIDE_PER_LISTENER
    if not per_broker and not cluster_wide:
        return f"{name} is a per-broker config: set it for one broker, not for all"
    return None


def usable_overrides(overrides: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """The stored dynamic configs that are valid. The others are ignored: they must not stop a broker."""
    return {
        name: value
        for name, value in overrides.items()
        if dynamic_refusal(name, per_broker=per_broker) is None and _is_valid(name, value)
    }


def _is_valid(name: str, value: str) -> bool:
    key = dynamic_key(name)
    if key is None:
        return True
    try:
        key.parse(value)
    except InvalidConfig:
        return False
    return True
