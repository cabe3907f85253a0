"""Fetch v13-18 on a controller's listener: replication of the metadata log, and nothing else.

v15 puts the replica into a struct of its own (KIP-903), v17 adds its directory id (KIP-853), v18 the high
watermark it knows (KIP-1166). By name (v12 and older) the log is not fetched.
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_answers import cluster_error, node_endpoints
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import FetchAnswer, FetchAsk, ReplicaKey
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

TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
ENDPOINTS_FROM = 16
HIGH_WATERMARK_FROM = 18
_ANY_HIGH_WATERMARK = (1 << 63) - 1


async def handle(services: NodeServices, request: FetchRequest, context: RequestContext) -> FetchResponse:
    error = cluster_error(services, request.cluster_id)
    if context.api_version < TOPIC_IDS_FROM:
        error = ErrorCode.INVALID_REQUEST
    if error is not ErrorCode.NONE:
        return FetchResponse(error_code=error)
    version = context.api_version
    replica_id = request.replica_state.replica_id if version >= REPLICA_STATE_FROM else request.replica_id
    response = FetchResponse()
    for topic in request.topics:
        answered = FetchableTopicResponse(topic_id=topic.topic_id)
        response.responses.append(answered)
        for partition in topic.partitions:
            if topic.topic_id != METADATA_TOPIC_ID or partition.partition != 0:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
                answered.partitions.append(
                    PartitionData(
                        partition_index=partition.partition,
                        error_code=unknown,
                        high_watermark=-1,
                        aborted_transactions=[],
                        records=b"",
                    )
                )
                continue
            answer = await services.raft.ask(
                FetchAsk(
                    epoch=partition.current_leader_epoch,
                    replica=ReplicaKey(replica_id, partition.replica_directory_id),
                    offset=partition.fetch_offset,
                    last_epoch=partition.last_fetched_epoch,
                    high_watermark=_known_high_watermark(partition, version),
                    max_wait_ms=request.max_wait_ms,
                )
            )
            assert isinstance(answer, FetchAnswer)
            answered.partitions.append(_partition(answer, services.raft.start_offset))
            if version >= ENDPOINTS_FROM:
                response.node_endpoints = node_endpoints(answer, NodeEndpoint)
    return response


def _known_high_watermark(partition: FetchPartition, version: int) -> int:
    """Whoever cannot say what it knows is not answered for the sake of a newer one alone."""
    return partition.high_watermark if version >= HIGH_WATERMARK_FROM else _ANY_HIGH_WATERMARK


def _partition(answer: FetchAnswer, start_offset: int) -> PartitionData:
    partition = PartitionData(
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.high_watermark,
        log_start_offset=start_offset if answer.error is ErrorCode.NONE else -1,
        aborted_transactions=[],
        records=answer.records,
    )
    if answer.epoch >= 0:
        leader_id = answer.leader_id if answer.leader_id != NO_NODE else -1
        partition.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=answer.epoch)
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        partition.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if answer.snapshot is not None:
        partition.snapshot_id = SnapshotId(end_offset=answer.snapshot.offset, epoch=answer.snapshot.epoch)
    return partition
