"""Log directories (KIP-858): which directory of a broker holds a replica, and the failure of a directory.

- A broker reports the directory of each replica with AssignReplicasToDirs. Only that distinguishes a lost
  directory from a replica that never existed: a broker that starts without the directory must not replace the
  lost log by an empty one.
- If a log is gone, or shorter than it was, the broker reports the directory of the replica as LOST before it
  is unfenced. It reports the real directory when there is a leader to follow.
- Heartbeats carry failed directories. Their replicas leave the ISR and other brokers lead. The directory is
  removed from the broker's registration, so it is handled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from ruslo.machines.controller.broker_image import BrokerImage
from ruslo.machines.controller.partition_changes import change_partition, changes_for_lost_directories
from ruslo.machines.controller.records import (
    DIRECTORY_ASSIGNMENT_SUPPORTED,
    VersionedRecord,
    partition_record_version,
)
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.machines.controller.topic_image import NO_LEADER
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import LOST_DIR, Uuid
from ruslo.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ruslo.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord


def lost_directories(state: ControllerState, broker: BrokerImage, offline: Iterable[Uuid]) -> set[Uuid]:
    """The failed directories of a heartbeat that are not handled yet."""
    if state.metadata_version < DIRECTORY_ASSIGNMENT_SUPPORTED:
        return set()
    return set(offline).intersection(broker.log_dirs)


def lose_directories(
    state: ControllerState, broker: BrokerImage, lost: Set[Uuid]
) -> Iterator[VersionedRecord]:
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        log_dirs=[each for each in broker.log_dirs if each not in lost],
    )
    yield from changes_for_lost_directories(state, broker.id, lost)
    yield change, 2


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
                                partition_index=each.partition_index,
                                error_code=_assign(
                                    state,
                                    request.broker_id,
                                    topic.topic_id,
                                    each.partition_index,
                                    directory.id,
                                    records,
                                ),
                            )
                            for each in topic.partitions
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
    known_dir = partition.directory_of(broker_id)
    if known_dir != directory_id:
        broker = state.image.cluster.brokers[broker_id]
        is_same_log = directory_id != LOST_DIR and broker.has_online_dir(known_dir)
        change = change_partition(
            state,
            topic,
            index,
            # The directory may have failed since; or the replica is back and may lead.
            without=() if broker.has_online_dir(directory_id) else (broker_id,),
            found_in=(broker_id, directory_id),
            # The broker cannot prove what it had, or runs without the former directory, so this is another
            # log, which started empty. The replica is not eligible because of the old one.
            restarted_empty=NO_LEADER if is_same_log else broker_id,
        )
        record = PartitionChangeRecord(topic_id=topic_id, partition_id=index)
        if change is not None:
            assert isinstance(change[0], PartitionChangeRecord)
            record = change[0]
        if state.metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED:
            directories = dict(zip(partition.replicas, partition.directories, strict=True))
            directories[broker_id] = directory_id
            # The change may complete a reassignment: then some replicas leave with it.
            remaining = partition.replicas if record.replicas is None else record.replicas
            record.directories = [directories[replica] for replica in remaining]
        elif change is None:
            return ErrorCode.NONE
        records.append((record, partition_record_version(state.metadata_version)))
    return ErrorCode.NONE
