"""AssignReplicasToDirs (KIP-858): a broker tells in which of its log directories it keeps a replica.

Only so can the loss of a directory be told from a replica that never was: a broker that starts without it
must not put an empty log in the place of the one that is gone.
"""

from __future__ import annotations

from ruslo.machines.controller.records import VersionedRecord, partition_record_version
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ruslo.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord


def assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    state.registered_broker(request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    response = AssignReplicasToDirsResponse(
        directories=[
            DirectoryData(
                id=directory.id,
                topics=[
                    TopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            PartitionData(
                                partition_index=asked.partition_index,
                                error_code=_assign(
                                    state,
                                    request.broker_id,
                                    topic.topic_id,
                                    asked.partition_index,
                                    directory.id,
                                    records,
                                ),
                            )
                            for asked in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )
    return records, response


def _assign(
    state: ControllerState,
    broker_id: int,
    topic_id: Uuid,
    index: int,
    directory_id: Uuid,
    records: list[VersionedRecord],
) -> ErrorCode:
    topic = state.image.topics.by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions[index]
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if directory_id not in state.image.cluster.brokers[broker_id].log_dirs:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if partition.directory_of(broker_id) != directory_id:
        directories = [
            directory_id if replica == broker_id else known
            for replica, known in zip(partition.replicas, partition.directories, strict=True)
        ]
        change = PartitionChangeRecord(topic_id=topic_id, partition_id=index, directories=directories)
        records.append((change, partition_record_version(state.metadata_version)))
    return ErrorCode.NONE
