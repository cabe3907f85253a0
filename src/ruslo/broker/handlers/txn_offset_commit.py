"""TxnOffsetCommit v0-5: commits offsets in a transaction.

v2: leader epochs. v3: members and generations (KIP-447). v4: TRANSACTION_ABORTABLE. v5: the group coordinator
adds its partition to the transaction (KIP-890).
"""

from __future__ import annotations

from ruslo.broker.handlers.allowed_resources import submit_allowed_topics
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest


def handle(services: Services, request: TxnOffsetCommitRequest, context: RequestContext) -> Response:
    context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return submit_allowed_topics(
        request,
        context,
        Operation.READ,
        lambda topic: topic.name,
        lambda allowed: services.transactional_commits.commit(allowed, context),
    )
