"""Dynamic configs: IncrementalAlterConfigs (KIP-339) and AlterConfigs, which replaces all configs of a
resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ruslo.machines.controller.config_image import BROKER, CLIENT_METRICS, CLUSTER_DEFAULT, GROUP, TOPIC
from ruslo.machines.controller.records import (
    CORDONED_LOG_DIRS_SUPPORTED,
    VersionedRecord,
    partition_record_version,
)
from ruslo.machines.controller.state import (
    CORDONED_LOG_DIRS,
    MIN_INSYNC_REPLICAS,
    ControllerState,
    Decision,
    check_record_count,
)
from ruslo.machines.controller.topic_image import NO_LEADER
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import topic_name_problem
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest
from ruslo.protocol.messages.alter_configs_response import AlterConfigsResourceResponse as ReplacedResource
from ruslo.protocol.messages.alter_configs_response import AlterConfigsResponse
from ruslo.protocol.messages.clear_elr_record import ClearElrRecord
from ruslo.protocol.messages.config_record import ConfigRecord
from ruslo.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from ruslo.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord


def incremental_alter_configs(
    state: ControllerState, request: IncrementalAlterConfigsRequest
) -> Decision[IncrementalAlterConfigsResponse]:
    records: list[VersionedRecord] = []
    responses: list[AlterConfigsResourceResponse] = []
    seen: set[tuple[int, str]] = set()
    for resource in request.resources:
        resource_type, name = resource.resource_type, resource.resource_name
        response = AlterConfigsResourceResponse(
            resource_type=resource_type, resource_name=name, error_message=None
        )
        responses.append(response)
        try:
            _check_resource(state, resource_type, name, seen)
            changes = [(each.name, each.config_operation, each.value) for each in resource.configs]
            current = state.image.configs.of(resource_type, name)
            new = state.rules.altered(resource_type, name, current, changes)
            changed_keys = [each.name for each in resource.configs]
            records += _config_records(state, resource_type, name, new, changed_keys)
        except KafkaError as error:
            response.error_code, response.error_message = error.code, error.message
    check_record_count(len(records))
    return [] if request.validate_only else records, IncrementalAlterConfigsResponse(responses=responses)


def alter_configs(state: ControllerState, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
    records: list[VersionedRecord] = []
    responses: list[ReplacedResource] = []
    seen: set[tuple[int, str]] = set()
    for resource in request.resources:
        resource_type, name = resource.resource_type, resource.resource_name
        response = ReplacedResource(resource_type=resource_type, resource_name=name, error_message=None)
        responses.append(response)
        try:
            _check_resource(state, resource_type, name, seen)
            current = state.image.configs.of(resource_type, name)
            given = {each.name: each.value for each in resource.configs}
            new = state.rules.replaced(resource_type, name, current, given)
            records += _config_records(state, resource_type, name, new, list({**current, **given}))
        except KafkaError as error:
            response.error_code, response.error_message = error.code, error.message
    check_record_count(len(records))
    return [] if request.validate_only else records, AlterConfigsResponse(responses=responses)


def _check_resource(
    state: ControllerState, resource_type: int, resource_name: str, seen: set[tuple[int, str]]
) -> None:
    if (resource_type, resource_name) in seen:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Resource {resource_name!r} is in the request twice")
    seen.add((resource_type, resource_name))
    if resource_type == TOPIC:
        problem = topic_name_problem(resource_name)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Invalid topic name: {problem}")
        if resource_name not in state.image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {resource_name!r} does not exist")
    elif resource_type == BROKER:
        if resource_name == CLUSTER_DEFAULT:
            return
        if not resource_name.isascii() or not resource_name.isdecimal():
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Broker resource {resource_name!r} must be a broker id, or empty for the cluster default",
            )
        cluster, node_id = state.image.cluster, int(resource_name)
        if node_id not in cluster.brokers and node_id not in cluster.controllers:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Node {resource_name} is not registered")
    elif resource_type in (GROUP, CLIENT_METRICS):
        if not resource_name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The resource name is empty")
    else:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Resources of type {resource_type} have no configs in the metadata log",
        )


def _config_records(
    state: ControllerState,
    resource_type: int,
    resource_name: str,
    new: Mapping[str, str],
    changed_keys: Iterable[str],
) -> list[VersionedRecord]:
    current = state.image.configs.of(resource_type, resource_name)
    records: list[VersionedRecord] = []
    cleared: list[VersionedRecord] = []
    for name in changed_keys:
        value = new.get(name)
        if name == CORDONED_LOG_DIRS and resource_type == BROKER:
            _check_cordons_supported(state)
        # An unchanged broker config is written too: it makes brokers reload key stores and the like.
        if value == current.get(name) and (resource_type != BROKER or value is None):
            continue
        if name == MIN_INSYNC_REPLICAS and resource_type == BROKER and state.elr_enabled:
            _check_min_insync_replicas(resource_name, value)
        record = ConfigRecord(
            resource_type=resource_type, resource_name=resource_name, name=name, value=value
        )
        records.append((record, 0))
        # Eligibility was judged by the old minimum, so no replica is eligible any more (KIP-966).
        if name == MIN_INSYNC_REPLICAS and resource_type in (TOPIC, BROKER) and state.elr_enabled:
            topic_name = resource_name if resource_type == TOPIC else ""
            cleared.append((ClearElrRecord(topic_name=topic_name), 0))
            cleared += _last_known_leaders(state, topic_name)
    return records + cleared


def _last_known_leaders(state: ControllerState, topic_name: str) -> Iterator[VersionedRecord]:
    """Clearing the ELR also clears the last known leader. A partition without in-sync replicas could never
    get a leader again then, so its last known leader is written again. (Apache Kafka leaves it to an unclean
    election.)
    """
    topics = state.image.topics.by_name
    for topic in (topics[topic_name],) if topic_name else topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == NO_LEADER and partition.last_known_elr:
                record = PartitionChangeRecord(
                    topic_id=topic.id, partition_id=index, last_known_elr=list(partition.last_known_elr)
                )
                yield record, partition_record_version(state.metadata_version)


def _check_cordons_supported(state: ControllerState) -> None:
    if state.metadata_version < CORDONED_LOG_DIRS_SUPPORTED:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{CORDONED_LOG_DIRS} needs metadata.version {CORDONED_LOG_DIRS_SUPPORTED}, but the cluster has "
            f"{state.metadata_version}. Upgrade metadata.version first",
        )


def _check_min_insync_replicas(resource_name: str, value: str | None) -> None:
    """With ELR all nodes must judge the ISR by the same minimum."""
    if resource_name != CLUSTER_DEFAULT and value is not None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{MIN_INSYNC_REPLICAS} cannot be set on one broker while eligible leader replicas are enabled. "
            "Set it on the topic or as the cluster default",
        )
    if resource_name == CLUSTER_DEFAULT and value is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The cluster default of {MIN_INSYNC_REPLICAS} cannot be removed while eligible leader replicas "
            "are "
            "enabled. Set another value instead",
        )
