"""Log directories (KIP-858): in which of them a broker keeps a replica, and what it means when one fails.

A broker tells the first with AssignReplicasToDirs. Only so can the loss of a directory be told from a replica
that never was: a broker that starts without it must not put an empty log in the place of the one that is
gone. Of a replica whose log is gone, or shorter than it was, it tells that its directory is LOST before it is
unfenced, and tells the real one when there is a leader to follow. It tells the second in its heartbeats: the
replicas there leave their in-sync sets and others lead, and the directory leaves the broker's registration,
so that it is told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from ruslo.machines.controller.broker_image import BrokerImage
from ruslo.machines.controller.elections import change_partition, changes_for_lost_directories
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
    """Which of the failed directories that a heartbeat names are not known as such."""
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
    known_dir = partition.directory_of(broker_id)
    if known_dir != directory_id:
        broker = state.image.cluster.brokers[broker_id]
        is_the_same_log = directory_id != LOST_DIR and broker.has_online_dir(known_dir)
        change = change_partition(
            state,
            topic,
            index,
            # It may be told too late, when the directory has failed; or be back, and able to lead.
            without=() if broker.has_online_dir(directory_id) else (broker_id,),
            found_in=(broker_id, directory_id),
            # The broker cannot prove what it had, or does without the directory it lay in, so that this is
            # another log, which begins empty. What made the replica eligible is gone with the old one.
            begun_anew=NO_LEADER if is_the_same_log else broker_id,
        )
        record = PartitionChangeRecord(topic_id=topic_id, partition_id=index)
        if change is not None:
            assert isinstance(change[0], PartitionChangeRecord)
            record = change[0]
        if state.metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED:
            directories = dict(zip(partition.replicas, partition.directories, strict=True))
            directories[broker_id] = directory_id
            # The change may be what ends a reassignment: then some of the replicas leave with it.
            staying = partition.replicas if record.replicas is None else record.replicas
            record.directories = [directories[replica] for replica in staying]
        elif change is None:
            return ErrorCode.NONE
        records.append((record, partition_record_version(state.metadata_version)))
    return ErrorCode.NONE
