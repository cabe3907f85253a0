"""EndQuorumEpoch v0-1 (KIP-595): the leader of the metadata log resigns and names its preferred successors.

v1 adds their directory ids (KIP-853).
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import foreign_cluster, is_metadata_log, node_endpoints
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.rpc import EndEpochRequest, ReplicaKey
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ruslo.protocol.messages.end_quorum_epoch_response import (
    EndQuorumEpochResponse,
    NodeEndpoint,
    PartitionData,
    TopicData,
)


async def handle(
    services: NodeServices, request: EndQuorumEpochRequest, context: RequestContext
) -> EndQuorumEpochResponse:
    if foreign_cluster(services, request.cluster_id):
        return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    response = EndQuorumEpochResponse()
    for topic in request.topics:
        topic_response = TopicData(topic_name=topic.topic_name)
        response.topics.append(topic_response)
        for partition in topic.partitions:
            data = PartitionData(partition_index=partition.partition_index)
            topic_response.partitions.append(data)
            if not is_metadata_log(topic.topic_name, partition.partition_index):
                data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            if context.api_version >= 1:
                preferred = tuple(
                    ReplicaKey(each.candidate_id, each.candidate_directory_id)
                    for each in partition.preferred_candidates
                )
            else:
                preferred = tuple(ReplicaKey(node_id) for node_id in partition.preferred_successors)
            result = await services.raft.handle_request(
                EndEpochRequest(
                    epoch=partition.leader_epoch, leader_id=partition.leader_id, preferred=preferred
                )
            )
            data.error_code, data.leader_id, data.leader_epoch = result.error, result.leader_id, result.epoch
            if context.api_version >= 1:
                response.node_endpoints = node_endpoints(result, NodeEndpoint)
    return response
