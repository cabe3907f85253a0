"""DescribeQuorum v0-2 (KIP-595): who leads the metadata log, who votes, how far each is.

v1 adds times (KIP-836), v2 directory ids, endpoints and messages (KIP-853).
"""

from __future__ import annotations

from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import Services
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID
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
    services: Services, request: DescribeQuorumRequest, context: RequestContext
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
        error_message=None,
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


def _partition(services: Services, topic: str, index: int, version: int) -> PartitionData:
    raft = services.raft
    answer = PartitionData(partition_index=index, error_message=None)
    if topic != METADATA_TOPIC or index != 0:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer
    if raft.leader_id != services.node_id:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return answer
    now_ms = services.clock.now_ms()
    answer.leader_id = raft.leader_id
    answer.leader_epoch = raft.epoch
    answer.high_watermark = raft.high_watermark
    # The leader is the only voter, so what it has is what the quorum has.
    answer.current_voters = [
        ReplicaState(
            replica_id=voter.node_id,
            replica_directory_id=voter.directory_id if version >= 2 else ZERO_UUID,
            log_end_offset=raft.end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for voter in raft.voters.voters
    ]
    return answer
