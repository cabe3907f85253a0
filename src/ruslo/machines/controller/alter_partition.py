"""AlterPartition (KIP-497, KIP-841, KIP-903): a leader proposes a new ISR, the controller decides."""

from __future__ import annotations

from ruslo.machines.controller.partition_changes import change_partition
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.machines.controller.topic_image import LEADER_UNCHANGED, RECOVERED, RECOVERING, PartitionImage
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState
from ruslo.protocol.messages.alter_partition_request import PartitionData as ProposedPartition
from ruslo.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord


def alter_partition(
    state: ControllerState, request: AlterPartitionRequest
) -> Decision[AlterPartitionResponse]:
    state.registered_broker(request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    topics: list[TopicData] = []
    for topic in request.topics:
        partitions = [
            _alter(state, request.broker_id, topic.topic_id, proposed, records)
            for proposed in topic.partitions
        ]
        topics.append(TopicData(topic_id=topic.topic_id, partitions=partitions))
    return records, AlterPartitionResponse(topics=topics)


def _alter(
    state: ControllerState,
    broker_id: int,
    topic_id: Uuid,
    proposed: ProposedPartition,
    records: list[VersionedRecord],
) -> PartitionData:
    topic = state.image.topics.by_id.get(topic_id)
    error = ErrorCode.UNKNOWN_TOPIC_ID
    if topic is not None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if 0 <= proposed.partition_index < len(topic.partitions):
            error = _proposal_error(state, broker_id, topic.partitions[proposed.partition_index], proposed)
    if topic is None or error is not ErrorCode.NONE:
        return PartitionData(partition_index=proposed.partition_index, error_code=error)
    partition = topic.partitions[proposed.partition_index]
    change = change_partition(
        state,
        topic,
        proposed.partition_index,
        target_isr=tuple(member.broker_id for member in _members(proposed)),
        target_recovery_state=proposed.leader_recovery_state,
    )
    leader_epoch, partition_epoch = partition.leader_epoch, partition.partition_epoch
    isr, recovery_state = list(partition.isr), partition.recovery_state
    if change is not None:
        records.append(change)
        record = change[0]
        assert isinstance(record, PartitionChangeRecord)
        partition_epoch += 1
        if record.leader == partition.leader:
            leader_epoch += 1
        if record.leader not in (LEADER_UNCHANGED, partition.leader):
            # The new ISR completed a reassignment that the current leader is not part of.
            return PartitionData(
                partition_index=proposed.partition_index, error_code=ErrorCode.NEW_LEADER_ELECTED
            )
        if record.isr is not None:
            isr = list(record.isr)
        if record.leader_recovery_state != -1:
            recovery_state = record.leader_recovery_state
    return PartitionData(
        partition_index=proposed.partition_index,
        leader_id=partition.leader,
        leader_epoch=leader_epoch,
        isr=isr,
        leader_recovery_state=recovery_state,
        partition_epoch=partition_epoch,
    )


def _members(proposed: ProposedPartition) -> list[BrokerState]:
    """Versions below 3 have broker ids without epochs; an epoch of -1 is not checked."""
    return proposed.new_isr_with_epochs or [
        BrokerState(broker_id=broker_id) for broker_id in proposed.new_isr
    ]


def _proposal_error(
    state: ControllerState, broker_id: int, partition: PartitionImage, proposed: ProposedPartition
) -> ErrorCode:
    if proposed.leader_epoch > partition.leader_epoch or proposed.partition_epoch > partition.partition_epoch:
        # The leader has seen a later state: another controller must have written it.
        return ErrorCode.NOT_CONTROLLER
    if proposed.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if proposed.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = _members(proposed)
    isr = [member.broker_id for member in members]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if proposed.leader_recovery_state == RECOVERING and (
        len(isr) > 1 or partition.recovery_state == RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    for member in members:
        broker = state.image.cluster.brokers.get(member.broker_id)
        if broker is None or not broker.active or member.broker_epoch not in (-1, broker.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
