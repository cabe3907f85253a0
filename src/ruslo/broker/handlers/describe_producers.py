"""DescribeProducers v0: the producers of a replica with their open transactions (KIP-664).

Followers respond as leaders do: tools query one broker for all partitions that it hosts.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import topic_name_problem
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest
from ruslo.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(
    services: Services, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(services, context, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(services: Services, context: RequestContext, topic: str, index: int) -> PartitionResponse:
    result = PartitionResponse(partition_index=index)
    try:
        problem = topic_name_problem(topic)
        if problem:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        context.require(Operation.READ, ResourceType.TOPIC, topic)
        partition = services.partitions.get(topic, index)
        result.active_producers = [
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start,
            )
            for producer in partition.log.producers.entries.values()
        ]
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message
    return result
