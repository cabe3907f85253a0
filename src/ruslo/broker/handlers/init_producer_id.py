"""InitProducerId v0-5: an identity for an idempotent producer. v6 (two-phase commit) is not served.

Without a transactional id every call gives a new id with epoch 0, whatever id the producer had before.
"""

from __future__ import annotations

from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import Services
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse


async def handle(
    services: Services, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    if request.transactional_id is None:
        producer_id = await services.producer_ids.generate()
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    if not request.transactional_id:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    # No transaction coordinator runs here: the client is to look for one, and learns that none is announced.
    return InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR, producer_epoch=-1)
