"""DescribeQuorum v0-2 (KIP-595): the leader of the metadata log, its voters and observers, and their
progress.

v1 adds times (KIP-836), v2 directory ids, endpoints and messages (KIP-853). Without an error the messages are
empty, not null.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.leader import Progress
from ruslo.machines.raft.rpc import ReplicaKey
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import METADATA_TOPIC
from ruslo.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ruslo.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)


def handle(
    services: NodeServices, request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse:
    nodes = [
        Node(
            node_id=voter.node_id,
            listeners=[
                Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
                for endpoint in voter.endpoints
            ],
        )
        for voter in services.raft.voters.voters
    ]
    return DescribeQuorumResponse(
        topics=[
            TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _partition(services, topic.topic_name, partition.partition_index, context.api_version)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        nodes=nodes if context.api_version >= 2 else [],
    )


def _partition(services: NodeServices, topic: str, index: int, version: int) -> PartitionData:
    raft = services.raft
    if topic != METADATA_TOPIC or index != 0:
        return _failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if raft.leader_id != services.node_id:
        return _failed(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partition = PartitionData(partition_index=index)
    partition.leader_id = raft.leader_id
    partition.leader_epoch = raft.epoch
    partition.high_watermark = raft.high_watermark
    replicas = dict(raft.replicas)
    for voter in raft.voters.voters:
        key = ReplicaKey(voter.node_id, voter.directory_id)
        progress = None if voter.node_id == services.node_id else replicas.pop(key, Progress())
        partition.current_voters.append(_replica(services, key, progress, version))
    partition.observers = [_replica(services, key, progress, version) for key, progress in replicas.items()]
    return partition


def _failed(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=error, error_message=None)


def _replica(
    services: NodeServices, key: ReplicaKey, progress: Progress | None, version: int
) -> ReplicaState:
    """``progress`` None: the leader itself, which is always caught up."""
    clock = services.clock
    since_boot_ms = clock.now_ms() - clock.monotonic_ms()
    state = ReplicaState(replica_id=key.node_id)
    if version >= 2:
        state.replica_directory_id = key.directory_id
    if progress is None:
        state.log_end_offset = services.raft.end_offset
        state.last_fetch_timestamp = state.last_caught_up_timestamp = clock.now_ms()
        return state
    state.log_end_offset = progress.end_offset
    if progress.last_fetch_ms >= 0:
        state.last_fetch_timestamp = since_boot_ms + progress.last_fetch_ms
    if progress.last_caught_up_ms >= 0:
        state.last_caught_up_timestamp = since_boot_ms + progress.last_caught_up_ms
    return state
