"""AddPartitionsToTxn v0-5: adds partitions to transactions.

v0-3 come from clients, with one transaction; v2: PRODUCER_FENCED. v4-5 come from partition leaders, with
several transactions, and may only verify (KIP-890).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.access import OPEN
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.txns.add_partitions import BATCHED_MIN_VERSION, response_of
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import INTERNAL_TOPICS, TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse


def handle(services: Services, request: AddPartitionsToTxnRequest, context: RequestContext) -> Response:
    transactions, version = services.transactions, context.api_version
    if version >= BATCHED_MIN_VERSION:
        context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    else:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
        refusal = _refusal(services, request, context)
        if refusal is not None:
            return refusal
        return transactions.submit(request.v3_and_below_transactional_id, request, version)
    if not request.transactions:
        return AddPartitionsToTxnResponse()
    return transactions.add_partitions_here(request, version)


def _refusal(
    services: Services, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Message | None:
    """If one topic is denied, none of the partitions is added; None if all are allowed.

    Internal topics are always denied: coordinators add those themselves.
    """
    if context.access is OPEN:
        return None
    topics = request.v3_and_below_topics
    denied = {
        topic.name
        for topic in topics
        if topic.name in INTERNAL_TOPICS
        or not context.allows(Operation.WRITE, ResourceType.TOPIC, topic.name)
    }
    if not denied:
        return None
    known = services.metadata.image.topics.by_name

    def code_of(topic: str, partition: int) -> ErrorCode:
        if topic in denied:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic not in known or not 0 <= partition < len(known[topic].partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    codes = {
        TopicPartition(topic.name, index): code_of(topic.name, index)
        for topic in topics
        for index in topic.partitions
    }
    return response_of({request.v3_and_below_transactional_id: codes}, context.api_version)
