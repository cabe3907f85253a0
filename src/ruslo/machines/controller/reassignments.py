"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

During a reassignment the old and the new replicas hold the partition together. When all new ones are in sync,
the ISR change that made it so also removes the old ones (``partition_change_builder``). A request may name
another target meanwhile, or cancel, which restores the original replicas.
"""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.machines.controller.partition_changes import Reassignment, change_partition
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import ControllerState, Decision, check_record_count
from ruslo.machines.controller.topic_image import PartitionImage, TopicImage
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from ruslo.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ruslo.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ruslo.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Each partition succeeds or fails by itself."""
    records: list[VersionedRecord] = []
    responses: list[ReassignableTopicResponse] = []
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        results = []
        for requested in topic.partitions:
            result = ReassignablePartitionResponse(
                partition_index=requested.partition_index, error_message=None
            )
            try:
                if (topic.name, requested.partition_index) in seen:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"{topic.name}-{requested.partition_index} is in the request twice",
                    )
                seen.add((topic.name, requested.partition_index))
                change = _reassign(state, topic.name, requested, request.allow_replication_factor_change)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
            else:
                if change is not None:
                    records.append(change)
            results.append(result)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    check_record_count(len(records))
    return records, AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _reassign(
    state: ControllerState, topic_name: str, requested: ReassignablePartition, may_change_factor: bool
) -> VersionedRecord | None:
    topic, partition = _find_partition(state, topic_name, requested.partition_index)
    if requested.replicas is None:
        return _cancel(state, topic, requested.partition_index, partition)
    _check_target(state, requested.replicas)
    # During a reassignment the replication factor of its target counts (KIP-860).
    factor = partition.replication_factor
    if not may_change_factor and len(requested.replicas) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(requested.replicas)}",
        )
    target = tuple(requested.replicas)
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    # "Adding" are all replicas that are not original, through all changes of the target: one that an earlier
    # target added and this one removes is adding and removing, so cancelling restores the original replicas.
    # (Apache Kafka forgets it, and a cancelled reassignment leaves such a replica behind.)
    original = {each for each in partition.replicas if each not in partition.adding}
    adding = tuple(sorted({*target, *removing} - original))
    reassignment = Reassignment((*target, *removing), adding, removing)
    # The target may have no records yet, and a replica that has them may come back: never lose them here.
    return change_partition(
        state, topic, requested.partition_index, reassignment=reassignment, clean_only=True
    )


def _find_partition(state: ControllerState, topic_name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    topic = state.image.topics.by_name.get(topic_name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {topic_name}-{index} does not exist"
        )
    return topic, topic.partitions[index]


def _check_target(state: ControllerState, replicas: Sequence[int]) -> None:
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The target contains no broker")
    if len(set(replicas)) != len(replicas):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{list(replicas)} contains a broker twice")
    unknown = [each for each in replicas if each not in state.image.cluster.brokers]
    if unknown:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The target contains unregistered brokers: {', '.join(map(str, unknown))}",
        )


def _cancel(
    state: ControllerState, topic: TopicImage, index: int, partition: PartitionImage
) -> VersionedRecord | None:
    if not partition.adding and not partition.removing:
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{index} is not being reassigned"
        )
    replicas = tuple(each for each in partition.replicas if each not in partition.adding)
    isr = tuple(each for each in partition.isr if each not in partition.adding)
    if not isr and not _can_cancel_uncleanly(state, topic, replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"None of the original replicas of {topic.name}-{index} is in sync. "
            "Wait until one is, or name a target",
        )
    return change_partition(state, topic, index, target_isr=isr, reassignment=Reassignment(replicas))


def _can_cancel_uncleanly(state: ControllerState, topic: TopicImage, replicas: Sequence[int]) -> bool:
    """An original replica is alive, and the topic allows unclean elections."""
    return state.unclean_leader_election(topic.name) and any(map(state.is_active, replicas))


def list_partition_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> Decision[ListPartitionReassignmentsResponse]:
    wanted = (
        None
        if request.topics is None
        else {each.name: set(each.partition_indexes) for each in request.topics}
    )
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for topic, index, partition in state.image.topics.partitions():
        if wanted is not None and index not in wanted.get(topic.name, ()):
            continue
        if partition.adding or partition.removing:
            topics.setdefault(topic.name, []).append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding),
                    removing_replicas=list(partition.removing),
                )
            )
    return [], ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(name=name, partitions=moving) for name, moving in topics.items()],
    )
