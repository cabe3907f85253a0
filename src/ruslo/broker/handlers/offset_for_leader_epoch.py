"""OffsetForLeaderEpoch v2-4: the end offset of an epoch (KIP-101, KIP-320), so that clients detect
truncation.

v3 replica id.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from ruslo.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def handle(
    services: Services, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    is_replica = context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, audited=False)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _end_offset(services, None if is_replica else context, topic.topic, listed)
                    for listed in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end_offset(
    services: Services, context: RequestContext | None, topic: str, listed: OffsetForLeaderPartition
) -> EpochEndOffset:
    """``context``: of a client that must be allowed to describe the topic."""
    result = EpochEndOffset(partition=listed.partition)
    try:
        if context is not None:
            context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = services.partitions.get(topic, listed.partition)
        partition.require_leader(listed.current_leader_epoch)
        result.leader_epoch, result.end_offset = partition.log.end_offset_for_epoch(listed.leader_epoch)
    except KafkaError as error:
        result.error_code = error.code
    return result
