"""FetchSnapshot v0-1 (KIP-630): a chunk of a snapshot of the metadata log.

v1 adds the replica's directory id and the leader's endpoint (KIP-853).
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import foreign_cluster, is_metadata_log, node_endpoints
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
    if foreign_cluster(services, request.cluster_id):
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    response = FetchSnapshotResponse()
    for topic in request.topics:
        topic_response = TopicSnapshot(name=topic.name)
        response.topics.append(topic_response)
        for partition in topic.partitions:
            snapshot_id = partition.snapshot_id
            data = PartitionSnapshot(index=partition.partition)
            topic_response.partitions.append(data)
            if not is_metadata_log(topic.name, partition.partition):
                data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
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
            data.error_code, data.size, data.position = result.error, result.size, result.position
            data.snapshot_id = SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)
            data.current_leader = LeaderIdAndEpoch(leader_id=result.leader_id, leader_epoch=result.epoch)
            data.unaligned_records = memoryview(result.chunk)[: request.max_bytes]
            if context.api_version >= 1:
                response.node_endpoints = node_endpoints(result, NodeEndpoint)
    return response
