"""The settings of producers, of consumers and of share consumers, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ruslo.client.settings.channel_security import is_security_setting
from ruslo.client.settings.connection_keys import CONNECTION_KEYS
from ruslo.client.settings.consumer_keys import CONSUMER_KEYS
from ruslo.client.settings.producer_keys import PRODUCER_KEYS
from ruslo.client.settings.sasl_keys import SASL_KEYS
from ruslo.client.settings.setting import REFUSED, Setting
from ruslo.client.settings.share_consumer_keys import SHARE_CONSUMER_KEYS
from ruslo.client.settings.tls_keys import TLS_KEYS

V = TypeVar("V")

_SHARED = (*CONNECTION_KEYS, *TLS_KEYS, *SASL_KEYS)


def _by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.key.name: setting for setting in settings}


PRODUCER = _by_name((*PRODUCER_KEYS, *_SHARED))
CONSUMER = _by_name((*CONSUMER_KEYS, *_SHARED))
SHARE_CONSUMER = _by_name((*SHARE_CONSUMER_KEYS, *TLS_KEYS, *SASL_KEYS))


def for_share_consumers(config: Mapping[str, V]) -> dict[str, V]:
    """Keep the settings that a share consumer has: files of settings also serve other clients."""
    return {
        name: value
        for name, value in config.items()
        if is_security_setting(name) or (name in SHARE_CONSUMER and SHARE_CONSUMER[name].handling != REFUSED)
    }


def for_producers(config: Mapping[str, V]) -> dict[str, V]:
    """Remove the settings of consumers only."""
    return {name: value for name, value in config.items() if name in PRODUCER or name not in CONSUMER}


def for_consumers(config: Mapping[str, V]) -> dict[str, V]:
    """Remove the settings of producers only."""
    return {name: value for name, value in config.items() if name in CONSUMER or name not in PRODUCER}
