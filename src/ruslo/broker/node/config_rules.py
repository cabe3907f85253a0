"""Gives the controller machine the rules of config keys, which it must not import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ruslo.config.alteration import (
    Alteration,
    alter_broker_keys,
    alter_client_metrics,
    alter_group,
    alter_topic,
    replace_broker_keys,
    replace_client_metrics,
    replace_group,
    replace_topic,
)
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.config_image import BROKER, CLIENT_METRICS, CLUSTER_DEFAULT, GROUP, TOPIC
from ruslo.machines.controller.state import ConfigChange
from ruslo.model.errors import ErrorCode, KafkaError


class BrokerConfigRules:
    """Implements the machine's ``ConfigRules`` with the current configuration.

    A broker validates changes of its own configs before it forwards them (``broker_config_changes``).
    """

    def __init__(self, current: Callable[[], BrokerConfig]) -> None:
        self._current = current

    def altered(
        self,
        resource_type: int,
        resource_name: str,
        current: Mapping[str, str],
        changes: Sequence[ConfigChange],
    ) -> Mapping[str, str]:
        broker, alterations = self._current(), [Alteration(*change) for change in changes]
        if resource_type == TOPIC:
            return alter_topic(broker, current, alterations)
        if resource_type == BROKER:
            return alter_broker_keys(current, alterations, per_broker=resource_name != CLUSTER_DEFAULT)
        if resource_type == GROUP:
            return alter_group(broker, current, alterations)
        if resource_type == CLIENT_METRICS:
            return alter_client_metrics(current, alterations)
        raise _unsupported_resource(resource_type)

    def replaced(
        self,
        resource_type: int,
        resource_name: str,
        current: Mapping[str, str],
        new: Mapping[str, str | None],
    ) -> Mapping[str, str]:
        broker = self._current()
        if resource_type == TOPIC:
            return replace_topic(broker, current, new)
        if resource_type == BROKER:
            return replace_broker_keys(new, per_broker=resource_name != CLUSTER_DEFAULT)
        if resource_type == GROUP:
            return replace_group(broker, new)
        if resource_type == CLIENT_METRICS:
            return replace_client_metrics(new)
        raise _unsupported_resource(resource_type)


def _unsupported_resource(resource_type: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Resource type {resource_type} has no configs; use topics (2), brokers (4), client metrics (16) or "
        "groups (32)",
    )
