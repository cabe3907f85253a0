"""DescribeTopicPartitions v0 (KIP-966): topics by name, one page at a time, with eligible leader replicas."""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.metadata.topic_responses import TopicQuery, TopicResponse
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.controller.topic_image import TopicImage
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import INTERNAL_TOPICS, topic_name_problem
from ruslo.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from ruslo.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_METADATA_VERSION = 13
"""Partitions are described as in this version of Metadata."""


def handle(
    services: Services, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    image = services.metadata.image
    first_name, first_index = "", 0
    if request.cursor is not None:
        first_name, first_index = request.cursor.topic_name, request.cursor.partition_index
        if first_index < 0 or (request.topics and first_name not in {each.name for each in request.topics}):
            # The response has no field for an error of the whole request.
            return DescribeTopicPartitionsResponse(
                topics=[_failed(each.name, ErrorCode.INVALID_REQUEST) for each in request.topics]
            )
    named = bool(request.topics)
    wanted = {topic.name for topic in request.topics} or image.topics.by_name.keys()
    limit = services.dynamic_config.current.int("max.request.partition.size.limit")
    remaining = min(max(request.response_partition_limit, 1), limit)
    lost = services.topic_responses.lost_leaders()
    query = TopicQuery(context.listener_name, _METADATA_VERSION, lost=lost)
    response = DescribeTopicPartitionsResponse()
    for name in sorted(each for each in wanted if each >= first_name):
        if not context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name, audited=named):
            # A topic that the client did not name stays hidden.
            if named:
                response.topics.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic = image.topics.by_name.get(name)
        if topic is None:
            is_valid = topic_name_problem(name) is None
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION
            failed = _failed(name, error)
            failed.topic_authorized_operations = context.authorized_operations(ResourceType.TOPIC, name)
            response.topics.append(failed)
            continue
        index = first_index if name == first_name else 0
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=index)
            break
        description = services.topic_responses.get(image, topic, query)
        end = min(index + remaining, len(topic.partitions))
        operations = context.authorized_operations(ResourceType.TOPIC, name)
        response.topics.append(_described(topic, description, operations, index, end))
        remaining -= max(end - index, 0)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return response


def _described(
    topic: TopicImage, description: TopicResponse, operations: int, start: int, end: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=shown.error_code,
                partition_index=shown.partition_index,
                leader_id=shown.leader_id,
                leader_epoch=shown.leader_epoch,
                replica_nodes=shown.replica_nodes,
                isr_nodes=shown.isr_nodes,
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=shown.offline_replicas,
            )
            for shown, partition in zip(
                description.partitions[start:end], topic.partitions[start:end], strict=True
            )
        ],
    )


def _failed(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=error)
