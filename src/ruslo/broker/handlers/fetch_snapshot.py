"""FetchSnapshot v0-1 (KIP-630): a chunk of a snapshot of the metadata log.

v1 adds the replica's directory id and the leader's endpoint (KIP-853).
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import cluster_error, is_metadata_log, node_endpoints
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft import snapshots
from ruslo.machines.raft.rpc import ReplicaKey, SnapshotRequest, SnapshotResponse
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ruslo.protocol.messages.fetch_snapshot_response import (
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)


async def handle(
    services: NodeServices, request: FetchSnapshotRequest, context: RequestContext
) -> FetchSnapshotResponse:
    error = cluster_error(services, request.cluster_id)
    if error is not ErrorCode.NONE:
        return FetchSnapshotResponse(error_code=error)
    response = FetchSnapshotResponse()
    for topic in request.topics:
        topic_response = TopicSnapshot(name=topic.name)
        response.topics.append(topic_response)
        for partition in topic.partitions:
            snapshot_id = partition.snapshot_id
            if not is_metadata_log(topic.name, partition.partition):
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                topic_response.partitions.append(
                    PartitionSnapshot(index=partition.partition, error_code=unknown)
                )
                continue
            result = await services.raft.handle_request(
                SnapshotRequest(
                    epoch=partition.current_leader_epoch,
                    replica=ReplicaKey(request.replica_id, partition.replica_directory_id),
                    id=snapshots.SnapshotId(snapshot_id.end_offset, snapshot_id.epoch),
                    position=partition.position,
                )
            )
            assert isinstance(result, SnapshotResponse)
            topic_response.partitions.append(
                PartitionSnapshot(
                    error_code=result.error,
                    snapshot_id=SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
                    current_leader=LeaderIdAndEpoch(leader_id=result.leader_id, leader_epoch=result.epoch),
                    size=result.size,
                    position=result.position,
                    unaligned_records=memoryview(result.chunk)[: request.max_bytes],
                )
            )
            if context.api_version >= 1:
                response.node_endpoints = node_endpoints(result, NodeEndpoint)
    return response
