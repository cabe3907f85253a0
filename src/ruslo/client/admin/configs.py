"""Settings of topics, brokers and groups as the cluster holds them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import ErrorCode
from ruslo.net.channel import error_of
from ruslo.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ruslo.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse


class ResourceType(enum.IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """Where a value comes from, the strongest first but for UNKNOWN."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Operation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """What is configured; a broker with the empty name stands for all brokers."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Resource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> Resource:
        return cls(ResourceType.BROKER, str(node_id))

    @classmethod
    def group(cls, group_id: str) -> Resource:
        return cls(ResourceType.GROUP, group_id)

    @classmethod
    def all_brokers(cls) -> Resource:
        return cls(ResourceType.BROKER, "")


class Change(NamedTuple):
    operation: Operation
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    """None when it is sensitive, or has no value."""
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None
    inherited: str | None = None
    """What it would be if it were not set here; None when it was not asked for, or nobody tells."""

    @property
    def is_set(self) -> bool:
        """Whether somebody chose it, in a file or through the cluster."""
        return self.source not in (ConfigSource.DEFAULT, ConfigSource.UNKNOWN)


class Configs:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(
        self,
        resource: Resource,
        names: Iterable[str] | None = None,
        *,
        documentation: bool = False,
        inherited: bool = False,
        node_id: int | None = None,
    ) -> list[ConfigEntry]:
        """``node_id`` names the broker to ask, where one knows more than the others."""
        keys = None if names is None else list(names)
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type, resource_name=resource.name, configuration_keys=keys
                )
            ],
            include_documentation=documentation,
            include_synonyms=inherited,
        )

        async def attempt() -> list[ConfigEntry]:
            asked = _node_of(resource) if node_id is None else node_id
            if asked is None:
                response = await self._cluster.any_broker(request, DescribeConfigsResponse)
            else:
                response = await self._cluster.node(asked, request, DescribeConfigsResponse)
            result = response.results[0]
            if result.error_code:
                raise error_of(result.error_code, result.error_message)
            return [
                ConfigEntry(
                    entry.name,
                    entry.value,
                    _source(entry.config_source),
                    entry.read_only,
                    entry.is_sensitive,
                    entry.documentation or None,
                    _inherited(entry),
                )
                for entry in sorted(result.configs, key=lambda entry: entry.name)
            ]

        return await self._cluster.retrying(attempt, final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))

    async def topic_values(self, topics: Iterable[str], key: str) -> dict[str, str | None]:
        """One setting of many topics, asked at once; topics that are gone meanwhile are left out."""
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=[key]
                )
                for name in topics
            ]
        )

        async def attempt() -> dict[str, str | None]:
            response = await self._cluster.any_broker(request, DescribeConfigsResponse)
            values: dict[str, str | None] = {}
            for result in response.results:
                if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                if result.error_code:
                    raise error_of(result.error_code, result.error_message)
                values[result.resource_name] = next((each.value for each in result.configs), None)
            return values

        return await self._cluster.retrying(attempt) if request.resources else {}

    async def alter(
        self, resource: Resource, changes: Mapping[str, Change], *, validate_only: bool = False
    ) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(name=name, config_operation=change.operation, value=change.value)
                        for name, change in changes.items()
                    ],
                )
            ],
            validate_only=validate_only,
        )

        async def attempt() -> None:
            node_id = _node_of(resource)
            # A broker checks its own settings before it lets the controller store them.
            if node_id is None:
                response = await self._cluster.controller(request, IncrementalAlterConfigsResponse)
            else:
                response = await self._cluster.node(node_id, request, IncrementalAlterConfigsResponse)
            for result in response.responses:
                if result.error_code:
                    raise error_of(result.error_code, result.error_message)

        await self._cluster.retrying(attempt, final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))


def _inherited(entry: DescribeConfigsResourceResult) -> str | None:
    # The first of the chain is what is in force.
    for each in entry.synonyms[1:]:
        if each.value is not None:
            # log.retention.hours stands in for retention.ms, in another unit.
            return each.value if each.name.endswith(entry.name) else f"{each.name}={each.value}"
    return None


def _node_of(resource: Resource) -> int | None:
    """The one broker that knows its own static settings."""
    per_node = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name
    return int(resource.name) if per_node else None


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource._value2member_map_ else ConfigSource.UNKNOWN
