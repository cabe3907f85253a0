"""Requests about configs."""

from __future__ import annotations

from ruslo.machines.controller.config_image import BROKER_LOGGER
from tests.support.authorization.names import NODE_ID, Fields, Names


def describe_configs(names: Names) -> Fields:
    resources = {names.config_resource() for _ in range(3)} | {(BROKER_LOGGER, NODE_ID, "", "")}
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": [config] if config else None}
            for kind, name, config, _ in sorted(resources)
        ]
    }


def alter_configs(names: Names) -> Fields:
    resources = {names.config_resource() for _ in range(2)}
    return {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": config, "value": value}],
            }
            for kind, name, config, value in sorted(resources)
        ],
        "validate_only": True,
    }


def incremental_alter_configs(names: Names) -> Fields:
    fields = alter_configs(names)
    if names.random.random() < 0.5:
        configs = [{"name": "root", "value": "INFO"}]
        fields["resources"].append(
            {"resource_type": BROKER_LOGGER, "resource_name": NODE_ID, "configs": configs}
        )
    return fields
