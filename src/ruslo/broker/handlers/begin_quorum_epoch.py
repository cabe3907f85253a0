"""BeginQuorumEpoch v0-1 (KIP-595): a new leader of the metadata log notifies its voters.

v1 adds the addressed voter and the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import foreign_cluster, is_metadata_log, node_endpoints
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.rpc import BeginEpochRequest, ReplicaKey
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ruslo.protocol.messages.begin_quorum_epoch_response import (
    BeginQuorumEpochResponse,
    NodeEndpoint,
    PartitionData,
    TopicData,
)


async def handle(
    services: NodeServices, request: BeginQuorumEpochRequest, context: RequestContext
) -> BeginQuorumEpochResponse:
    if foreign_cluster(services, request.cluster_id):
        return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    response = BeginQuorumEpochResponse()
    endpoints = tuple(Endpoint(at.name, at.host, at.port) for at in request.leader_endpoints)
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
                BeginEpochRequest(
                    epoch=partition.leader_epoch,
                    leader_id=partition.leader_id,
                    voter=ReplicaKey(request.voter_id, partition.voter_directory_id),
                    endpoints=endpoints,
                )
            )
            data.error_code, data.leader_id, data.leader_epoch = result.error, result.leader_id, result.epoch
            if context.api_version >= 1:
                response.node_endpoints = node_endpoints(result, NodeEndpoint)
    return response
