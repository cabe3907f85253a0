"""CreateTopics, DeleteTopics and CreatePartitions.

Each topic of a request succeeds or fails by itself; all that succeed are appended as one atomic batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from ruslo.machines.controller.config_image import TOPIC
from ruslo.machines.controller.placement import place_replicas
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import MIN_INSYNC_REPLICAS, ControllerState, Decision, check_record_count
from ruslo.machines.controller.topic_image import (
    PartitionImage,
    TopicImage,
    collision_name_of,
    partition_record,
)
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_to_text
from ruslo.model.topics import METADATA_TOPIC, topic_name_problem
from ruslo.protocol.messages.clear_elr_record import ClearElrRecord
from ruslo.protocol.messages.config_record import ConfigRecord
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ruslo.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ruslo.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from ruslo.protocol.messages.remove_topic_record import RemoveTopicRecord
from ruslo.protocol.messages.topic_record import TopicRecord

USE_DEFAULT = -1


class _Assignments(NamedTuple):
    partition_count: int
    replication_factor: int
    replicas: Iterable[Sequence[int]]
    """The replicas of each partition; a one-time iterable, possibly lazy."""


def create_topics(state: ControllerState, request: CreateTopicsRequest) -> Decision[CreateTopicsResponse]:
    records: list[Iterable[VersionedRecord]] = []
    record_count = 0
    results: list[CreatableTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    duplicates = {name for name, count in counts.items() if count > 1}
    collision_names: dict[str, str] = {}
    for name in sorted(duplicates):
        results.append(
            _creation_failed(name, ErrorCode.INVALID_REQUEST, f"Topic {name!r} is in the request twice")
        )
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        try:
            _check_new_name(state, topic.name, collision_names)
            first, partitions, result = _create_topic(state, topic)
        except KafkaError as error:
            results.append(_creation_failed(topic.name, error.code, error.message))
            continue
        collision_name = collision_name_of(topic.name)
        if collision_name is not None:
            collision_names[collision_name] = topic.name
        records += first, partitions
        record_count += len(first) + result.num_partitions
        results.append(result)
    check_record_count(record_count)
    created = () if request.validate_only else chain.from_iterable(records)
    return created, CreateTopicsResponse(topics=results)


def _check_new_name(state: ControllerState, name: str, collision_names: dict[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{METADATA_TOPIC} is managed by the cluster itself"
        )
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Invalid topic name: {problem}")
    if name in state.image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists")
    collision_name = collision_name_of(name)
    if collision_name is not None:
        other = state.image.topics.collision_names.get(collision_name) or collision_names.get(collision_name)
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic {name!r} collides with {other!r}: metrics do not distinguish '.' and '_'",
            )


def _create_topic(
    state: ControllerState, topic: CreatableTopic
) -> tuple[list[VersionedRecord], Iterator[VersionedRecord], CreatableTopicResult]:
    """The records of the topic, those of its partitions, and the result."""
    given = {config.name: config.value for config in topic.configs}
    configs = state.rules.replaced(TOPIC, topic.name, {}, given)
    assignments = (
        _manual_assignments(state, topic) if topic.assignments else _automatic_assignments(state, topic)
    )
    topic_id = state.new_uuid()
    records: list[VersionedRecord] = [(TopicRecord(name=topic.name, topic_id=topic_id), 0)]
    for name, value in configs.items():
        records.append(
            (ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=name, value=value), 0)
        )
    if MIN_INSYNC_REPLICAS in configs and state.elr_enabled:
        records.append((ClearElrRecord(topic_name=topic.name), 0))
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=assignments.partition_count,
        replication_factor=assignments.replication_factor,
    )
    return records, _partition_records(state, topic_id, 0, assignments), result


def _automatic_assignments(state: ControllerState, topic: CreatableTopic) -> _Assignments:
    partition_count, replication_factor = topic.num_partitions, topic.replication_factor
    if replication_factor == USE_DEFAULT:
        replication_factor = state.settings.default_replication_factor
    if replication_factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {replication_factor} is invalid. Set it above 0, or to -1 for the default",
        )
    if partition_count == USE_DEFAULT:
        partition_count = state.settings.num_partitions
    if partition_count <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Partition count {partition_count} is invalid. Set it above 0, or to -1 for the default",
        )
    return _place(state, partition_count, replication_factor)


def _manual_assignments(state: ControllerState, topic: CreatableTopic) -> _Assignments:
    if topic.replication_factor != USE_DEFAULT or topic.num_partitions != USE_DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "With manual assignments the number of partitions and the replication factor must be -1",
        )
    by_index = {each.partition_index: each.broker_ids for each in topic.assignments}
    if len(by_index) != len(topic.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned twice")
    if sorted(by_index) != list(range(len(by_index))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The assigned partitions must be numbered from 0 without gaps",
        )
    assignments = [by_index[index] for index in range(len(by_index))]
    _check_assignments(state, assignments, len(assignments[0]))
    return _Assignments(len(assignments), len(assignments[0]), assignments)


def _place(state: ControllerState, partition_count: int, replication_factor: int) -> _Assignments:
    # Checked before anything is built: a count of 2^31-1 would cost gigabytes only to be rejected.
    check_record_count(partition_count)
    brokers = state.image.cluster.brokers.values()
    replicas = place_replicas(brokers, partition_count, replication_factor, state.random)
    return _Assignments(partition_count, replication_factor, replicas)


def _check_assignments(
    state: ControllerState, assignments: Iterable[Sequence[int]], replication_factor: int
) -> None:
    brokers = state.image.cluster.brokers
    for replicas in assignments:
        if not replicas:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned to no broker")
        for broker_id in replicas:
            if broker_id not in brokers:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"The assignment contains broker {broker_id}, which is not registered",
                )
        if len(set(replicas)) != len(replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{list(replicas)} contains a broker twice"
            )
        if len(replicas) != replication_factor:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{list(replicas)} has {len(replicas)} replicas; the other partitions have "
                f"{replication_factor}",
            )
        if not any(brokers[broker_id].active for broker_id in replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers of {list(replicas)} are fenced or shutting down",
            )


def _partition_records(
    state: ControllerState, topic_id: Uuid, first_index: int, assignments: _Assignments
) -> Iterator[VersionedRecord]:
    brokers = state.image.cluster.brokers
    active = {broker.id for broker in brokers.values() if broker.active}
    default_dirs = {broker.id: broker.default_dir() for broker in brokers.values()}
    metadata_version = state.metadata_version
    for index, replicas in enumerate(assignments.replicas, first_index):
        isr = tuple([replica for replica in replicas if replica in active])
        partition = PartitionImage(
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            replicas=tuple(replicas),
            isr=isr,
            directories=tuple([default_dirs[replica] for replica in replicas]),
        )
        yield partition_record(topic_id, index, partition, metadata_version)


def _creation_failed(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=code, error_message=message, num_partitions=-1, replication_factor=-1
    )


def delete_topics(state: ControllerState, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
    """Topics come by name in ``topic_names`` (versions 1 to 5) or by name or id in ``topics`` (version 6)."""
    wanted = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    records: list[VersionedRecord] = []
    results: list[DeletableTopicResult] = []
    occurrences = Counter(topic.id for each in wanted if (topic := _find_topic(state, each)) is not None)
    for each in wanted:
        name, topic_id = each.name, each.topic_id
        try:
            topic_id, name = _topic_to_delete(state, name, topic_id)
            if occurrences[topic_id] > 1:
                # A client whose request was invalid must find the topic unchanged.
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic {name!r} is in the request twice")
        except KafkaError as error:
            results.append(
                DeletableTopicResult(
                    name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
                )
            )
            continue
        records.append((RemoveTopicRecord(topic_id=topic_id), 0))
        results.append(DeletableTopicResult(name=name, topic_id=topic_id))
    check_record_count(len(records))
    return records, DeleteTopicsResponse(responses=results)


def _find_topic(state: ControllerState, requested: DeleteTopicState) -> TopicImage | None:
    topics = state.image.topics
    return (
        topics.by_id.get(requested.topic_id) if requested.name is None else topics.by_name.get(requested.name)
    )


def _topic_to_delete(state: ControllerState, name: str | None, topic_id: Uuid) -> tuple[Uuid, str]:
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Give the name or the id of a topic, not both")
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither the name nor the id of the topic is given")
    if name is None:
        topic = state.image.topics.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"Topic id {uuid_to_text(topic_id)} does not exist")
    else:
        topic = state.image.topics.by_name.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} does not exist")
    return topic.id, topic.name


def create_partitions(
    state: ControllerState, request: CreatePartitionsRequest
) -> Decision[CreatePartitionsResponse]:
    records: list[Iterable[VersionedRecord]] = []
    record_count = 0
    results: list[CreatePartitionsTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    duplicates = {name for name, count in counts.items() if count > 1}
    for name in sorted(duplicates):
        results.append(
            CreatePartitionsTopicResult(
                name=name,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"Topic {name!r} is in the request twice",
            )
        )
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        try:
            count, added = _added_partitions(state, topic)
        except KafkaError as error:
            results.append(
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.message
                )
            )
        else:
            records.append(added)
            record_count += count
            results.append(CreatePartitionsTopicResult(name=topic.name))
    check_record_count(record_count)
    created = () if request.validate_only else chain.from_iterable(records)
    return created, CreatePartitionsResponse(results=results)


def _added_partitions(
    state: ControllerState, request: CreatePartitionsTopic
) -> tuple[int, Iterator[VersionedRecord]]:
    """The number of new partitions and their records."""
    topic = state.image.topics.by_name.get(request.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {request.name!r} does not exist")
    present = len(topic.partitions)
    if request.count <= present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic {request.name!r} has {present} partitions; {request.count} is not an increase",
        )
    added = request.count - present
    replication_factor = topic.partitions[0].replication_factor
    if request.assignments is None:
        assignments = _place(state, added, replication_factor)
    else:
        if len(request.assignments) != added:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The request adds {added} partitions but assigns {len(request.assignments)}",
            )
        given = [each.broker_ids for each in request.assignments]
        _check_assignments(state, given, replication_factor)
        assignments = _Assignments(added, replication_factor, given)
    return added, _partition_records(state, topic.id, present, assignments)
