"""Validation of changes to a broker's dynamic configs before the controller stores them (KIP-226).

The broker that receives the change validates it against its property file and forwards it. A controller that
receives it directly cannot do that, so it accepts no new cordoned directories (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.config_access import require_config_access
from ruslo.broker.requests.context import RequestContext
from ruslo.config.alteration import replace_broker
from ruslo.config.dynamic import fixed_listener_keys
from ruslo.machines.controller.config_image import BROKER, CLUSTER_DEFAULT
from ruslo.machines.controller.state import CORDONED_LOG_DIRS
from ruslo.model.acls import Operation
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError

Change: TypeAlias = Callable[[Mapping[str, str], bool], Mapping[str, str]]
"""Gets the current dynamic configs and whether one broker has them; returns the new ones."""


def broker_change_error(
    services: NodeServices, context: RequestContext, resource_name: str, change: Change
) -> KafkaError | None:
    """Why the configs of this broker, or of all brokers, cannot be changed like this; None if they can."""
    if context.forwarded:
        return None  # The forwarding broker has validated it.
    try:
        # First of all: a validation reads the files that the change names, and its errors tell about them.
        require_config_access(context, Operation.ALTER_CONFIGS, BROKER, resource_name)
        _check_broker_change(services, context, resource_name, change)
    except KafkaError as error:
        return error
    return None


def _check_broker_change(
    services: NodeServices, context: RequestContext, resource_name: str, change: Change
) -> None:
    per_broker = resource_name != CLUSTER_DEFAULT
    current = services.metadata.image.configs.of(BROKER, resource_name)
    if context.listener_name in services.config.controller_listener_names:
        new = change(current, per_broker)
        _reject_new_cordons(current.get(CORDONED_LOG_DIRS), new.get(CORDONED_LOG_DIRS))
        return
    if per_broker and resource_name != str(services.node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Broker {services.node_id} cannot validate configs of broker {resource_name!r}. Send the change "
            "to that broker",
        )
    new = change(current, per_broker)
    names = [each.listener_name for each in services.config.listeners]
    fixed = [
        name for name in fixed_listener_keys({*current, *new}, names) if current.get(name) != new.get(name)
    ]
    if fixed:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{fixed[0]} cannot change while its listener is open: set it in the property file and restart "
            "the broker",
        )
    changed = replace_broker(services.dynamic_config.current, new, per_broker=per_broker)
    try:
        services.check_config(changed)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _reject_new_cordons(old: str | None, new: str | None) -> None:
    added = _items(new) - _items(old)
    if added:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"A controller cannot add {', '.join(sorted(added))} to {CORDONED_LOG_DIRS}, because it does not "
            "know the broker's log directories. Send the change to the broker",
        )


def _items(value: str | None) -> set[str]:
    return {item for item in map(str.strip, (value or "").split(",")) if item}
