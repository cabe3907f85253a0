"""TxnOffsetCommit v0-5: commits offsets in a transaction.

v2: leader epochs. v3: members and generations (KIP-447). v4: TRANSACTION_ABORTABLE. v5: the group coordinator
adds its partition to the transaction (KIP-890).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest


def handle(services: Services, request: TxnOffsetCommitRequest, context: RequestContext) -> Response:
    return services.transactional_commits.commit(request, context)
