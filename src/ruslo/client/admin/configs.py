"""Configs of topics, brokers, groups and client metrics subscriptions: describe and alter."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import check_code, error_of
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
from ruslo.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from ruslo.protocol.messages.list_config_resources_response import ListConfigResourcesResponse


class ResourceType(enum.IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

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
    """A config resource; the broker with the empty name stands for all brokers."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Resource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> Resource:
        return cls(ResourceType.BROKER, str(node_id))

    @classmethod
    def broker_loggers(cls, node_id: int) -> Resource:
        """The loggers of one broker (KIP-412): their names are the configs, their levels the values."""
        return cls(ResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def group(cls, group_id: str) -> Resource:
        return cls(ResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> Resource:
        return cls(ResourceType.CLIENT_METRICS, name)

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
    """None when the config is sensitive or has no value."""
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None
    inherited: str | None = None
    """The value that a delete would restore; None when it was not requested or is unknown."""

    @property
    def is_set(self) -> bool:
        """Whether the value was set, in a file or dynamically, rather than a default."""
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
        """``node_id`` selects the broker that receives the request; any broker by default."""
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
            target = _node_of(resource) if node_id is None else node_id
            if target is None:
                response = await self._cluster.any_broker(request, DescribeConfigsResponse)
            else:
                response = await self._cluster.node(target, request, DescribeConfigsResponse)
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
        """The value of one config by topic, in one request; topics that no longer exist are left out."""
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

    async def client_metrics_names(self) -> list[str]:
        """The names of the client metrics subscriptions (KIP-714)."""

        async def attempt() -> list[str]:
            request = ListConfigResourcesRequest(resource_types=[ResourceType.CLIENT_METRICS])
            try:
                response = await self._cluster.any_broker(request, ListConfigResourcesResponse, min_version=1)
            except KafkaError as error:
                if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
                # v0, up to Apache Kafka 4.0, lists nothing else.
                request = ListConfigResourcesRequest()
                response = await self._cluster.any_broker(request, ListConfigResourcesResponse)
            check_code(response.error_code, None)
            return sorted(each.resource_name for each in response.config_resources)

        return await self._cluster.retrying(attempt)

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
            # A broker validates its own configs before it forwards them to the controller.
            if node_id is None:
                response = await self._cluster.controller(request, IncrementalAlterConfigsResponse)
            else:
                response = await self._cluster.node(node_id, request, IncrementalAlterConfigsResponse)
            for result in response.responses:
                if result.error_code:
                    raise error_of(result.error_code, result.error_message)

        await self._cluster.retrying(attempt, final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))


def _inherited(entry: DescribeConfigsResourceResult) -> str | None:
    # The first synonym is the value in force.
    for each in entry.synonyms[1:]:
        if each.value is not None:
            # The synonym has another name and perhaps another unit: log.retention.hours for retention.ms.
            return each.value if each.name.endswith(entry.name) else f"{each.name}={each.value}"
    return None


def _node_of(resource: Resource) -> int | None:
    """The broker that alone knows its static configs; None if any broker will do."""
    per_node = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name
    return int(resource.name) if per_node else None


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource._value2member_map_ else ConfigSource.UNKNOWN
