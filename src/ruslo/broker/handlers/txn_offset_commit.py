"""TxnOffsetCommit v0-5: offsets that count when the transaction commits.

v2: leader epochs. v3: members and generations (KIP-447). v4: TRANSACTION_ABORTABLE. v5: the group's
coordinator adds its partition to the transaction itself (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message
from ruslo.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest


def handle(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> Message | Awaitable[Message]:
    return services.transactional_commits.commit(request, context)
