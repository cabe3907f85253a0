"""AddOffsetsToTxn v0-4: a client is about to commit a group's offsets in its transaction.

v2: PRODUCER_FENCED. Clients of transaction version 2 do not send it: the group coordinator adds its partition
(KIP-890).
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.topics import GROUP_OFFSETS_TOPIC
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest


def handle(services: Services, request: AddOffsetsToTxnRequest, context: RequestContext) -> Response:
    context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    if GROUP_OFFSETS_TOPIC not in services.metadata.image.topics.by_name:
        return _create_and_submit(services, request, context)
    return services.transactions.submit(request.transactional_id, request, context.api_version)


async def _create_and_submit(
    services: Services, request: AddOffsetsToTxnRequest, context: RequestContext
) -> Message:
    """Create ``__consumer_offsets`` first: the transaction needs a partition for its marker."""
    await services.offsets_topic.create()
    await services.metadata.wait_for(services.controller.committed_offset)
    response = services.transactions.submit(request.transactional_id, request, context.api_version)
    return response if isinstance(response, Message) else await response
