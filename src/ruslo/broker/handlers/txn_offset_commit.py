"""TxnOffsetCommit v0-6: commits offsets in a transaction.

v2: leader epochs. v3: members and generations (KIP-447). v4: TRANSACTION_ABORTABLE. v5: the group coordinator
adds its partition to the transaction (KIP-890). v6: topic ids and the errors of member epochs (KIP-1319).

As in Kafka, partitions that do not exist are answered before the transaction is verified.
"""

from __future__ import annotations

from copy import copy

from ruslo.broker.handlers.allowed_resources import submit_allowed_topics, then, with_topics
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.groups.offsets.commit import TXN_TOPIC_IDS_MIN_VERSION
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
    name_of = services.metadata.image.topics.name_of
    return submit_allowed_topics(
        request,
        context,
        Operation.READ,
        lambda topic: topic.name or name_of(topic.topic_id),
        lambda allowed: _commit_existing(services, allowed, context),
    )


def _commit_existing(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> Response:
    """Commit the offsets of partitions that exist.

    The others get UNKNOWN_TOPIC_OR_PARTITION, or UNKNOWN_TOPIC_ID if no topic has the id.
    """
    topics = services.metadata.image.topics
    by_id = context.api_version >= TXN_TOPIC_IDS_MIN_VERSION
    existing: list[TxnOffsetCommitRequestTopic] = []
    unknown: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        known = topics.by_id.get(topic.topic_id) if by_id else topics.by_name.get(topic.name)
        missing = (
            ErrorCode.UNKNOWN_TOPIC_ID if by_id and known is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        count = 0 if known is None else len(known.partitions)
        found = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if found:
            present = copy(topic)
            present.partitions = found
            existing.append(present)
        if len(found) < len(topic.partitions):
            unknown.append(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index,
                            error_code=missing,
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
        answered = {(topic.name, topic.topic_id): topic for topic in response.topics}
        for topic in unknown:
            same = answered.get((topic.name, topic.topic_id))
            if same is not None:
                same.partitions += topic.partitions
            else:
                response.topics.append(topic)

    return then(services.transactional_commits.commit(with_topics(request, existing), context), complete)
