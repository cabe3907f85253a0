"""ElectLeaders (KIP-460), the rebalance to preferred leaders, and periodic unclean elections."""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.machines.controller.partition_change_builder import Election
from ruslo.machines.controller.partition_changes import change_partition
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import ControllerState, Decision, check_record_count
from ruslo.machines.controller.topic_image import LEADER_UNCHANGED, NO_LEADER, PartitionImage
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord

_PREFERRED, _UNCLEAN = 0, 1


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """A request for all partitions lists all topics, but only partitions that changed or failed."""
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}. Use 0 or 1"
        )
    election = Election.PREFERRED if request.election_type == _PREFERRED else Election.UNCLEAN
    response = ElectLeadersResponse()
    return _elections(state, request, election, response), response


def _elections(
    state: ControllerState, request: ElectLeadersRequest, election: Election, response: ElectLeadersResponse
) -> Iterator[VersionedRecord]:
    """Completes the response with the last record."""
    count = 0
    results: dict[str, list[PartitionResult]] = {}
    if request.topic_partitions is None:
        results = {name: [] for name in state.image.topics.by_name}
    for topic_name, index in _requested_partitions(state, request):
        result = PartitionResult(partition_id=index, error_message=None)
        try:
            change = _elect(state, topic_name, index, election)
        except KafkaError as error:
            if request.topic_partitions is None and error.code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            result.error_code, result.error_message = error.code, error.message
        else:
            count += 1
            check_record_count(count)
            yield change
        results.setdefault(topic_name, []).append(result)
    response.replica_election_results = [
        ReplicaElectionResult(topic=name, partition_result=listed) for name, listed in results.items()
    ]


def _requested_partitions(state: ControllerState, request: ElectLeadersRequest) -> Iterator[tuple[str, int]]:
    if request.topic_partitions is None:
        for image, index, _ in state.image.topics.partitions():
            yield image.name, index
    else:
        for topic in request.topic_partitions:
            for index in topic.partitions:
                yield topic.topic, index


def _elect(state: ControllerState, topic_name: str, index: int, election: Election) -> VersionedRecord:
    topic = state.image.topics.by_name.get(topic_name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {topic_name}-{index} does not exist"
        )
    partition = topic.partitions[index]
    if election is Election.PREFERRED:
        if partition.leader == partition.replicas[0]:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "The preferred leader already leads")
    elif partition.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {partition.leader} leads the partition")
    change = change_partition(state, topic, index, election=election)
    if change is None or not _elects(change, partition, election):
        raise _no_leader_error(partition, election)
    return change


def _elects(change: VersionedRecord, partition: PartitionImage, election: Election) -> bool:
    record = change[0]
    assert isinstance(record, PartitionChangeRecord)
    if election is Election.PREFERRED:
        return record.leader == partition.replicas[0]
    return record.leader not in (LEADER_UNCHANGED, NO_LEADER)


def _no_leader_error(partition: PartitionImage, election: Election) -> KafkaError:
    if election is Election.PREFERRED:
        return KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Broker {partition.replicas[0]} is not in sync or not alive",
        )
    return KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"None of the brokers {list(partition.replicas)} is alive",
    )


def preferred_leader_changes(state: ControllerState) -> Iterator[VersionedRecord]:
    """Return the leadership to preferred leaders that can lead."""
    for topic, index, partition in state.image.topics.partitions():
        if _preferred_leader_can_lead(state, partition):
            change = change_partition(state, topic, index, election=Election.PREFERRED)
            if change is not None:
                yield change


def _preferred_leader_can_lead(state: ControllerState, partition: PartitionImage) -> bool:
    preferred = partition.replicas[0]
    return (
        partition.leader not in (preferred, NO_LEADER)
        and preferred in partition.isr
        and state.is_active(preferred)
    )


def unclean_leader_changes(state: ControllerState) -> Iterator[VersionedRecord]:
    """Elect leaders for partitions without one whose topic allows unclean elections."""
    for topic, index, partition in state.image.topics.partitions():
        if partition.leader == NO_LEADER and state.unclean_leader_election(topic.name):
            change = change_partition(state, topic, index)
            if change is not None:
                yield change
