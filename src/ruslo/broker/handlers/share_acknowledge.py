"""ShareAcknowledge v1-2: what a member of a share group did with the records that it acquired (KIP-932).

v2 renews acquisition locks, and the response has their duration (KIP-1222). Epoch -1 closes the share
session: after the acknowledgements, the member's other records become available.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.handlers.share_acknowledgements import Errors, ShareClient, batches_by_partition
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.share_session import FINAL_EPOCH, INITIAL_EPOCH
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.leader_hints import NO_LEADER, LeaderAndEpoch
from ruslo.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from ruslo.protocol.messages.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


async def handle(
    services: Services, request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse:
    client = ShareClient.of(services, request, context)
    shares, epoch = services.share_partitions, request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        raise KafkaError(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            "ShareAcknowledge does not open a session. Send a ShareFetch.",
        )
    shares.sessions.use(client.session_key, epoch)
    errors = await client.acknowledge(batches_by_partition(request.topics), request.is_renew_ack).done
    if epoch == FINAL_EPOCH:
        shares.close_session(client.session_key)
    return _response(client, errors)


def _response(client: ShareClient, errors: Errors) -> ShareAcknowledgeResponse:
    topics: dict[Uuid, ShareAcknowledgeTopicResponse] = {}
    leaders: list[LeaderAndEpoch] = []
    for tp, error in errors.items():
        topic_id, index = tp
        result = PartitionData(partition_index=index)
        if error is not None:
            result.error_code, result.error_message = error.code, error.message
            leader = client.leader_of(tp, error.code)
            if leader != NO_LEADER:
                leaders.append(leader)
                result.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id))
        topic.partitions.append(result)
    return ShareAcknowledgeResponse(
        responses=list(topics.values()),
        acquisition_lock_timeout_ms=client.lock_duration_ms,
        node_endpoints=[
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in client.endpoints(leaders)
        ],
    )
