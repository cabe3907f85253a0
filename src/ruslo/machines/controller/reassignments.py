"""Replicas move to other brokers: AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

A partition that moves is held by the old and the new replicas together. When all the new ones are in sync the
old ones leave, with the change of the in-sync set that made it so (``elections``). Asking for another target
on the way is allowed; asking for none goes back to the replicas that there were.
"""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.machines.controller.elections import Reassignment, change_partition
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
        for asked in topic.partitions:
            result = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
            try:
                if (topic.name, asked.partition_index) in seen:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"{topic.name}-{asked.partition_index} is in the request twice",
                    )
                seen.add((topic.name, asked.partition_index))
                change = _reassigned(state, topic.name, asked, request.allow_replication_factor_change)
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


def _reassigned(
    state: ControllerState, topic_name: str, asked: ReassignablePartition, may_change_factor: bool
) -> VersionedRecord | None:
    topic, partition = _known(state, topic_name, asked.partition_index)
    if asked.replicas is None:
        return _cancelled(state, topic, asked.partition_index, partition)
    _check_target(state, asked.replicas)
    # On the way to a target already, that target's number counts (KIP-860).
    factor = partition.replication_factor
    if not may_change_factor and len(asked.replicas) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{topic_name}-{asked.partition_index} has {factor} replicas, the target has "
            f"{len(asked.replicas)}, and the request does not allow to change their number",
        )
    target = tuple(asked.replicas)
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    # "Adding" is who was not there at the beginning, through all changes of the target: whoever came with an
    # earlier one and leaves with this is adding and removing, so that cancelling leads back to the beginning.
    # (Apache Kafka forgets it, and a cancelled move leaves such a replica behind.)
    original = {each for each in partition.replicas if each not in partition.adding}
    adding = tuple(sorted({*target, *removing} - original))
    reassignment = Reassignment((*target, *removing), adding, removing)
    # The target may have no records yet, and who has them may be back in a moment: nobody asked to lose them.
    return change_partition(state, topic, asked.partition_index, reassignment=reassignment, clean_only=True)


def _known(state: ControllerState, topic_name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    topic = state.image.topics.by_name.get(topic_name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_name}-{index}")
    return topic, topic.partitions[index]


def _check_target(state: ControllerState, replicas: Sequence[int]) -> None:
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the target names no broker at all")
    if len(set(replicas)) != len(replicas):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{list(replicas)} names a broker twice")
    unknown = [each for each in replicas if each not in state.image.cluster.brokers]
    if unknown:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the target names {', '.join(f'broker {each}' for each in unknown)}, not registered",
        )


def _cancelled(
    state: ControllerState, topic: TopicImage, index: int, partition: PartitionImage
) -> VersionedRecord | None:
    if not partition.adding and not partition.removing:
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{index} is not being reassigned"
        )
    replicas = tuple(each for each in partition.replicas if each not in partition.adding)
    isr = tuple(each for each in partition.isr if each not in partition.adding)
    if not isr and not _can_go_back_uncleanly(state, topic, replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"none of the replicas that {topic.name}-{index} had before is in sync; "
            "wait until one is, or name a target",
        )
    return change_partition(state, topic, index, target_isr=isr, reassignment=Reassignment(replicas))


def _can_go_back_uncleanly(state: ControllerState, topic: TopicImage, replicas: Sequence[int]) -> bool:
    """Somebody who was there before is alive, and the topic would rather lose records than wait."""
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
