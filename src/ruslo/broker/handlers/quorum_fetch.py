"""Fetch v13-18 on a controller listener: replication of the metadata log only.

v15 has a ReplicaState struct (KIP-903), v17 adds the directory id (KIP-853), v18 the known high watermark
(KIP-1166). Fetches by topic name (v12 and older) are rejected.
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import foreign_cluster, node_endpoints
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import RaftFetchRequest, RaftFetchResponse, ReplicaKey
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import METADATA_TOPIC_ID
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest
from ruslo.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)

TOPIC_IDS_MIN_VERSION = 13
REPLICA_STATE_MIN_VERSION = 15
ENDPOINTS_MIN_VERSION = 16
HIGH_WATERMARK_MIN_VERSION = 18
_ANY_HIGH_WATERMARK = (1 << 63) - 1


async def handle(services: NodeServices, request: FetchRequest, context: RequestContext) -> FetchResponse:
    # The metadata log holds SCRAM credentials and delegation tokens.
    context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    version = context.api_version
    if version < TOPIC_IDS_MIN_VERSION:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    if foreign_cluster(services, request.cluster_id):
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    replica_id = (
        request.replica_state.replica_id if version >= REPLICA_STATE_MIN_VERSION else request.replica_id
    )
    response = FetchResponse()
    for topic in request.topics:
        topic_response = FetchableTopicResponse(topic_id=topic.topic_id)
        response.responses.append(topic_response)
        for partition in topic.partitions:
            if topic.topic_id != METADATA_TOPIC_ID or partition.partition != 0:
                topic_response.partitions.append(
                    PartitionData(
                        partition_index=partition.partition,
                        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                        high_watermark=-1,
                        aborted_transactions=[],
                        records=b"",
                    )
                )
                continue
            result = await services.raft.handle_request(
                RaftFetchRequest(
                    epoch=partition.current_leader_epoch,
                    replica=ReplicaKey(replica_id, partition.replica_directory_id),
                    offset=partition.fetch_offset,
                    last_epoch=partition.last_fetched_epoch,
                    high_watermark=_known_high_watermark(partition, version),
                    max_wait_ms=request.max_wait_ms,
                )
            )
            assert isinstance(result, RaftFetchResponse)
            topic_response.partitions.append(_partition(result, services.raft.start_offset))
            if version >= ENDPOINTS_MIN_VERSION:
                response.node_endpoints = node_endpoints(result, NodeEndpoint)
    return response


def _known_high_watermark(partition: FetchPartition, version: int) -> int:
    """A follower that cannot report its high watermark gets no response for a newer one alone."""
    return partition.high_watermark if version >= HIGH_WATERMARK_MIN_VERSION else _ANY_HIGH_WATERMARK


def _partition(result: RaftFetchResponse, start_offset: int) -> PartitionData:
    partition = PartitionData(
        error_code=result.error,
        high_watermark=result.high_watermark,
        last_stable_offset=result.high_watermark,
        log_start_offset=start_offset if result.error is ErrorCode.NONE else -1,
        aborted_transactions=[],
        records=result.records,
    )
    if result.epoch >= 0:
        leader_id = result.leader_id if result.leader_id != NO_NODE else -1
        partition.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=result.epoch)
    if result.diverging is not None:
        epoch, end_offset = result.diverging
        partition.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if result.snapshot is not None:
        partition.snapshot_id = SnapshotId(end_offset=result.snapshot.offset, epoch=result.snapshot.epoch)
    return partition
