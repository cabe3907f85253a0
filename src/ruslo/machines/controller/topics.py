"""Topics come and go: CreateTopics, DeleteTopics, CreatePartitions.

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
    """Of each partition, once: they may be worked out as they are asked for."""


def create_topics(state: ControllerState, request: CreateTopicsRequest) -> Decision[CreateTopicsResponse]:
    records: list[Iterable[VersionedRecord]] = []
    record_count = 0
    results: list[CreatableTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    duplicates = {name for name, count in counts.items() if count > 1}
    taken: dict[str, str] = {}
    for name in sorted(duplicates):
        results.append(
            _creation_failed(name, ErrorCode.INVALID_REQUEST, f"topic {name!r} is in the request twice")
        )
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        try:
            _check_new_name(state, topic.name, taken)
            first, partitions, result = _create_topic(state, topic)
        except KafkaError as error:
            results.append(_creation_failed(topic.name, error.code, error.message))
            continue
        collision_name = collision_name_of(topic.name)
        if collision_name is not None:
            taken[collision_name] = topic.name
        records += first, partitions
        record_count += len(first) + result.num_partitions
        results.append(result)
    check_record_count(record_count)
    made = () if request.validate_only else chain.from_iterable(records)
    return made, CreateTopicsResponse(topics=results)


def _check_new_name(state: ControllerState, name: str, taken: dict[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{METADATA_TOPIC} is kept by the cluster itself"
        )
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name is not valid: {problem}")
    if name in state.image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    collision_name = collision_name_of(name)
    if collision_name is not None:
        other = state.image.topics.collision_names.get(collision_name) or taken.get(collision_name)
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {name!r} collides with {other!r}: metrics cannot tell '.' from '_'",
            )


def _create_topic(
    state: ControllerState, topic: CreatableTopic
) -> tuple[list[VersionedRecord], Iterator[VersionedRecord], CreatableTopicResult]:
    """The records of the topic, of its partitions, and the answer."""
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
            f"replication factor {replication_factor} is not valid; it must be above 0, or -1: default",
        )
    if partition_count == USE_DEFAULT:
        partition_count = state.settings.num_partitions
    if partition_count <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"number of partitions {partition_count} is not valid: it must be above 0, or -1 for the default",
        )
    return _place(state, partition_count, replication_factor)


def _manual_assignments(state: ControllerState, topic: CreatableTopic) -> _Assignments:
    if topic.replication_factor != USE_DEFAULT or topic.num_partitions != USE_DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "with replicas assigned by hand, the number of partitions and the replication factor must be -1",
        )
    by_index = {each.partition_index: each.broker_ids for each in topic.assignments}
    if len(by_index) != len(topic.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    if sorted(by_index) != list(range(len(by_index))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the assigned partitions must be numbered from 0 without a gap",
        )
    assignments = [by_index[index] for index in range(len(by_index))]
    _check_assignments(state, assignments, len(assignments[0]))
    return _Assignments(len(assignments), len(assignments[0]), assignments)


def _place(state: ControllerState, partition_count: int, replication_factor: int) -> _Assignments:
    # Checked before anything is built: a count of 2^31-1 would otherwise cost gigabytes only to be refused.
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
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned to no broker at all"
            )
        for broker_id in replicas:
            if broker_id not in brokers:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"the assignment names broker {broker_id}, not registered",
                )
        if len(set(replicas)) != len(replicas):
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{list(replicas)} names a broker twice")
        if len(replicas) != replication_factor:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{list(replicas)} has {len(replicas)} replica(s), the other partitions {replication_factor}",
            )
        if not any(brokers[broker_id].active for broker_id in replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"all of the brokers {list(replicas)} are fenced or stopping",
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
    """Takes names from ``topic_names`` (versions 1 to 5) and names or ids from ``topics`` (version 6)."""
    wanted = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    records: list[VersionedRecord] = []
    results: list[DeletableTopicResult] = []
    meant = Counter(topic.id for each in wanted if (topic := _topic_meant(state, each)) is not None)
    for each in wanted:
        name, topic_id = each.name, each.topic_id
        try:
            topic_id, name = _topic_to_delete(state, name, topic_id)
            if meant[topic_id] > 1:
                # Whoever is told that his request is wrong must find the topic still there.
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name!r} is in the request twice")
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


def _topic_meant(state: ControllerState, asked: DeleteTopicState) -> TopicImage | None:
    topics = state.image.topics
    return topics.by_id.get(asked.topic_id) if asked.name is None else topics.by_name.get(asked.name)


def _topic_to_delete(state: ControllerState, name: str | None, topic_id: Uuid) -> tuple[Uuid, str]:
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is to be named or given by id, not both")
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "neither the topic's name nor its id is given")
    if name is None:
        topic = state.image.topics.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {uuid_to_text(topic_id)}"
            )
    else:
        topic = state.image.topics.by_name.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
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
                error_message=f"topic {name!r} is in the request twice",
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
    made = () if request.validate_only else chain.from_iterable(records)
    return made, CreatePartitionsResponse(results=results)


def _added_partitions(
    state: ControllerState, request: CreatePartitionsTopic
) -> tuple[int, Iterator[VersionedRecord]]:
    """How many there will be, and their records."""
    topic = state.image.topics.by_name.get(request.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {request.name!r}")
    present = len(topic.partitions)
    if request.count <= present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {request.name!r} has {present} partition(s), {request.count} would not be an increase",
        )
    added = request.count - present
    replication_factor = topic.partitions[0].replication_factor
    if request.assignments is None:
        assignments = _place(state, added, replication_factor)
    else:
        if len(request.assignments) != added:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partition(s) are to be added, but {len(request.assignments)} assigned",
            )
        given = [each.broker_ids for each in request.assignments]
        _check_assignments(state, given, replication_factor)
        assignments = _Assignments(added, replication_factor, given)
    return added, _partition_records(state, topic.id, present, assignments)
