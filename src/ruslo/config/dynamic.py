"""Which broker keys may be changed while a broker runs, and at which level (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.config.definition import ConfigKey, Dynamic, InvalidConfig, base_name
from ruslo.config.tables import BROKER, BROKER_DYNAMIC_ONLY

# Reloaded with the listener they belong to, so they are only accepted as listener.name.NAME.KEY.
ONLY_PER_LISTENER = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.truststore.certificates",
    }
)
# Of the listener-scoped names these alone make sense for the whole cluster.
_CLUSTER_WIDE_PER_LISTENER = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)


def dynamic_key(name: str) -> ConfigKey | None:
    """The declaration that governs a dynamic name; None for names only a plug-in may know."""
    return BROKER.get(base_name(name)) or BROKER_DYNAMIC_ONLY.get(name)


def dynamic_refusal(name: str, *, per_broker: bool) -> str | None:
    """Why a name may not be set dynamically at this level, with the way out; None when it may."""
    base = base_name(name)
    key = dynamic_key(name)
    if base == name:
        if key is not None and key.dynamic is Dynamic.READ_ONLY:
            return f"{name} cannot be changed while the broker runs: set it in the property file and restart"
        if name in ONLY_PER_LISTENER:
            return f"{name} can be changed for one listener only: use listener.name.NAME.{name}"
        cluster_wide = key is None or key.dynamic is Dynamic.CLUSTER_WIDE
    else:
        cluster_wide = base in _CLUSTER_WIDE_PER_LISTENER
    if not per_broker and not cluster_wide:
        return f"{name} cannot be set for all brokers at once: name the broker it is meant for"
    return None


def usable_overrides(overrides: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """The stored dynamic settings that may take effect; the others are passed over, not to stop a broker."""
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
