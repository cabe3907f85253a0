"""Vote v0-2 (KIP-595): another node requests a vote for the leadership of the metadata log.

v1 adds directory ids and endpoints (KIP-853), v2 the pre-vote (KIP-996).
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import foreign_cluster, is_metadata_log, node_endpoints
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.rpc import RaftVoteRequest, RaftVoteResponse, ReplicaKey
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.vote_request import VoteRequest
from ruslo.protocol.messages.vote_response import NodeEndpoint, PartitionData, TopicData, VoteResponse


async def handle(services: NodeServices, request: VoteRequest, context: RequestContext) -> VoteResponse:
    if foreign_cluster(services, request.cluster_id):
        return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    response = VoteResponse()
    for topic in request.topics:
        topic_response = TopicData(topic_name=topic.topic_name)
        response.topics.append(topic_response)
        for partition in topic.partitions:
            data = PartitionData(partition_index=partition.partition_index)
            topic_response.partitions.append(data)
            if not is_metadata_log(topic.topic_name, partition.partition_index):
                data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            result = await services.raft.handle_request(
                RaftVoteRequest(
                    epoch=partition.replica_epoch,
                    candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
                    voter=ReplicaKey(request.voter_id, partition.voter_directory_id),
                    last_epoch=partition.last_offset_epoch,
                    end_offset=partition.last_offset,
                    pre_vote=partition.pre_vote,
                )
            )
            assert isinstance(result, RaftVoteResponse)
            data.error_code, data.leader_id, data.leader_epoch = result.error, result.leader_id, result.epoch
            data.vote_granted = result.granted
            if context.api_version >= 1:
                response.node_endpoints = node_endpoints(result, NodeEndpoint)
    return response
