"""DescribeConfigs v1-4: every config of a resource with value, source and synonyms, not only changed ones.

v3 adds types and documentation (KIP-569). Sensitive values are never shown.
"""

from __future__ import annotations

from collections.abc import Collection

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.config_access import require_config_access
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.loggers import logger_levels, require_own_loggers
from ruslo.config.definition import ConfigType
from ruslo.config.resolution import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ruslo.machines.controller.config_image import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    CLUSTER_DEFAULT,
    GROUP,
    TOPIC,
)
from ruslo.model.acls import Operation
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import topic_name_problem
from ruslo.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ruslo.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ruslo.storage.lost_data import LostDataList

ASSIGNOR_ERROR = "ruslo.assignor.error"
_ASSIGNOR_ERROR_DOC = (
    "Why the group's last assignment failed; it keeps the one before. Absent when nothing is wrong."
)
LOST_DATA = "ruslo.lost.data"
_LOST_DATA_DOC = "The records that this broker lost, one line per partition. Absent when nothing is lost."
_MAX_LOST_DATA_LINES = 100


def handle(
    services: NodeServices, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(services, request, each, context) for each in request.resources]
    )


def _describe(
    services: NodeServices,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    context: RequestContext,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    try:
        require_config_access(
            context, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
        )
        entries = _entries(services, resource, resource.configuration_keys)
        result.configs = [_result(entry, request) for entry in entries]
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _entries(
    services: NodeServices, resource: DescribeConfigsResource, names: Collection[str] | None
) -> list[ConfigEntry]:
    name, image = resource.resource_name, services.metadata.image
    config = services.dynamic_config.current
    if resource.resource_type == TOPIC:
        problem = topic_name_problem(name)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Invalid topic name: {problem}")
        if name not in image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} does not exist")
        return describe_topic(config, image.configs.of_topic(name), names)
    if resource.resource_type == BROKER:
        if name == CLUSTER_DEFAULT:
            return describe_broker_defaults(config, names)
        if name != str(services.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Broker {services.node_id} does not have the configs of broker {name!r}. Send the request "
                "to that one",
            )
        entries = describe_broker(config, names)
        if len(services.lost_data) and (not names or LOST_DATA in names):
            lost = _lost_data_lines(services.lost_data)
            entries.append(_extra_entry(LOST_DATA, lost, ConfigSource.STATIC_BROKER_CONFIG, _LOST_DATA_DOC))
        return entries
    if resource.resource_type == BROKER_LOGGER:
        require_own_loggers(services.node_id, name)
        return [
            _extra_entry(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, None, read_only=False)
            for logger, level in logger_levels().items()
            if not names or logger in names
        ]
    if resource.resource_type == GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The group name is empty")
        entries = describe_group(config, image.configs.of(GROUP, name), names)
        failure = services.assignor_error(name)
        if failure is not None and (not names or ASSIGNOR_ERROR in names):
            entries.append(
                _extra_entry(ASSIGNOR_ERROR, failure, ConfigSource.DYNAMIC_GROUP_CONFIG, _ASSIGNOR_ERROR_DOC)
            )
        return entries
    if resource.resource_type == CLIENT_METRICS:
        if not name:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The name of the client metrics subscription is empty"
            )
        return describe_client_metrics(config, image.configs.of(CLIENT_METRICS, name), names)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Resources of type {resource.resource_type} have no configs")


def _extra_entry(
    name: str, value: str, source: ConfigSource, doc: str | None, read_only: bool = True
) -> ConfigEntry:
    """An entry for something that is not a config. Kafka's responses have no other field for it."""
    return ConfigEntry(
        name, value, source, read_only, sensitive=False, type=ConfigType.STRING, doc=doc, synonyms=()
    )


def _lost_data_lines(lost_data: LostDataList) -> str:
    lines = [str(each) for each in lost_data]
    if len(lines) > _MAX_LOST_DATA_LINES:
        lines[_MAX_LOST_DATA_LINES:] = [f"and {len(lines) - _MAX_LOST_DATA_LINES} more"]
    return "\n".join(lines)


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in entry.synonyms
        ]
    return result
