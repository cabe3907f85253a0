"""TxnOffsetCommit v0-5: commits offsets in a transaction.

v2: leader epochs. v3: members and generations (KIP-447). v4: TRANSACTION_ABORTABLE. v5: the group coordinator
adds its partition to the transaction (KIP-890).

As in Kafka, partitions that do not exist are answered before the transaction is verified.
"""

from __future__ import annotations

from ruslo.broker.handlers.allowed_resources import submit_allowed_topics, then, with_topics
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from ruslo.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def handle(services: Services, request: TxnOffsetCommitRequest, context: RequestContext) -> Response:
    context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return submit_allowed_topics(
        request,
        context,
        Operation.READ,
        lambda topic: topic.name,
        lambda allowed: _commit_existing(services, allowed, context),
    )


def _commit_existing(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> Response:
    """Commit the offsets of partitions that exist; the others get UNKNOWN_TOPIC_OR_PARTITION."""
    topics = services.metadata.image.topics.by_name
    existing: list[TxnOffsetCommitRequestTopic] = []
    unknown: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        known = topics.get(topic.name)
        count = 0 if known is None else len(known.partitions)
        found = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if found:
            existing.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=found))
        if len(found) < len(topic.partitions):
            unknown.append(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                        for each in topic.partitions
                        if not 0 <= each.partition_index < count
                    ],
                )
            )
    if not unknown:
        return services.transactional_commits.commit(request, context)
    if not existing:
        return TxnOffsetCommitResponse(topics=unknown)

    def complete(response: TxnOffsetCommitResponse) -> None:
        by_name = {topic.name: topic for topic in response.topics}
        for topic in unknown:
            if topic.name in by_name:
                by_name[topic.name].partitions += topic.partitions
            else:
                response.topics.append(topic)

    return then(services.transactional_commits.commit(with_topics(request, existing), context), complete)
